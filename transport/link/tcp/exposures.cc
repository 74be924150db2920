#include "transport/link/tcp/exposures.h"

#include <utility>

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::tcp {

uint64_t Exposures::Add(Span span) {
  auto exposure = std::make_shared<Exposure>(std::move(span), home_);
  const MutexLock lock(mutex_);
  uint64_t key = 0;
  do {
    key = os::RandomNumber();
  } while (!by_key_.emplace(key, exposure).second);
  return key;
}

Status Exposures::NotOpen() {
  return {Code::kPermissionDenied, reasons::kAccessDenied,
          "nothing is open to reading under that key and range"};
}

bool Exposures::Revoke(uint64_t key, Task idle) {
  std::shared_ptr<Exposure> exposure;
  {
    const MutexLock lock(mutex_);
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) {
      exposure = std::move(found->second);
      by_key_.erase(found);
      exposure->idle_ = std::move(idle);
      return exposure.use_count() > 1;
    }
  }
  home_.Post(std::move(idle));
  return false;
}

Result<ExposureRef> Exposures::Find(uint64_t key, uint64_t offset, uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end() ||
      !CheckWithin({offset, bytes}, found->second->span().bytes, "exposure").ok()) {
    return NotOpen();
  }
  return ExposureRef(found->second);
}

void Exposures::Clear() {
  std::unordered_map<uint64_t, std::shared_ptr<Exposure>> all;
  const MutexLock lock(mutex_);
  all.swap(by_key_);
}

}  // namespace onecopy::tcp
