#include "transport/store/posix/cut.h"

#include <algorithm>

namespace onecopy::posix {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr unsigned kLeastDepth = 8;
constexpr unsigned kMostDepth = 16;
// A device has less to do for few large requests; what is copied out of the page cache is better
// shared among the cores.
constexpr uint64_t kMostDirectBytes = 4 * kMiB;
constexpr uint64_t kLeastBytes = kMiB;

}  // namespace

Cut Cut::For(uint64_t bytes, bool direct, unsigned cores) const {
  Cut cut = *this;
  if (cut.depth == 0) cut.depth = std::clamp(cores, kLeastDepth, kMostDepth);
  if (cut.piece_bytes == 0) {
    // Several times the depth, so that the last ones end nearly together.
    const uint64_t even = bytes / (uint64_t{4} * cut.depth) / kMiB * kMiB;
    cut.piece_bytes = direct ? std::clamp(even, kLeastBytes, kMostDirectBytes) : kLeastBytes;
  }
  return cut;
}

}  // namespace onecopy::posix
