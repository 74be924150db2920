#include "transport/link/tcp/exports.h"

#include <utility>

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::tcp {

uint64_t Exports::Add(Span span) {
  auto exported = std::make_shared<Export>(std::move(span), home_);
  const MutexLock lock(mutex_);
  uint64_t key = 0;
  do {
    key = os::RandomNumber();
  } while (!by_key_.emplace(key, exported).second);
  return key;
}

Status Exports::NotOpen() {
  return {Code::kPermissionDenied, reasons::kAccessDenied,
          "this key does not open that range for reading"};
}

bool Exports::Revoke(uint64_t key, Task idle) {
  std::shared_ptr<Export> exported;
  {
    const MutexLock lock(mutex_);
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) {
      exported = std::move(found->second);
      by_key_.erase(found);
      exported->idle_ = std::move(idle);
      return exported.use_count() > 1;
    }
  }
  home_.Post(std::move(idle));
  return false;
}

Result<ExportRef> Exports::Find(uint64_t key, uint64_t offset, uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end() ||
      !CheckWithin({offset, bytes}, found->second->span().bytes, "export").ok()) {
    return NotOpen();
  }
  return ExportRef(found->second);
}

void Exports::Clear() {
  std::unordered_map<uint64_t, std::shared_ptr<Export>> all;
  const MutexLock lock(mutex_);
  all.swap(by_key_);
}

}  // namespace onecopy::tcp
