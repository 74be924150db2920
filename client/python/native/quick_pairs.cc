#include "client/python/native/quick_pairs.h"

namespace onecopy::python {
namespace {

constexpr uint64_t kMostBytes = uint64_t{4} << 30;  // as in client.h, of rings
constexpr size_t kMostRanges = 1024;                // likewise
constexpr size_t kMostPairs = 4096;

bool IsShort(const TransferRequest& request) {
  return request.source.bytes.value_or(0) <= kMostBytes &&
         request.destination.bytes.value_or(0) <= kMostBytes;
}

bool FitsRings(const TransferRequest& request) {
  const bool few =
      request.equal_ranges == nullptr || request.equal_ranges->sources.size() <= kMostRanges;
  return IsShort(request) && request.ranges.empty() && few && !request.checksum &&
         !request.deadline && !request.policy.client_file;
}

}  // namespace

bool QuickPairs::Contains(const TransferRequest& request) const {
  if (!FitsRings(request)) return false;
  const MutexLock lock(mutex_);
  return seen_.contains({request.source.buffer, request.destination.buffer});
}

bool QuickPairs::Note(const TransferRequest& request) {
  if (!IsShort(request)) return false;
  const MutexLock lock(mutex_);
  if (seen_.size() >= kMostPairs) seen_.clear();
  seen_.emplace(request.source.buffer, request.destination.buffer);
  return FitsRings(request);
}

}  // namespace onecopy::python
