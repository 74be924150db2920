#include "daemon/engine/transfers/mends.h"

#include <cstddef>

namespace onecopy::engine {
namespace {

// A source that is written to meanwhile differs each time.
constexpr int kMostRounds = 3;
// Each part is asked for anew. Of more, all from the first to the last are sent.
constexpr size_t kMostParts = 16;

}  // namespace

bool Mends::Add(const std::vector<ByteRange>& wrong) {
  if (wrong.empty() || rounds_ == kMostRounds) return false;
  ++rounds_;
  parts_.assign(wrong.begin(), wrong.end());
  if (parts_.size() > kMostParts) {
    const uint64_t begin = wrong.front().offset;
    parts_.assign(1, {begin, wrong.back().offset + wrong.back().bytes - begin});
  }
  return true;
}

uint64_t Mends::bytes() const {
  uint64_t bytes = 0;
  for (const ByteRange& part : parts_) bytes += part.bytes;
  return bytes;
}

}  // namespace onecopy::engine
