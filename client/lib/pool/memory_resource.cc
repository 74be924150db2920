#include "onecopy/memory_resource.h"

#include <algorithm>
#include <cstdio>
#include <unordered_map>
#include <utility>

#include "client/lib/calls/fork_guard.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/core/base/mutex.h"

namespace onecopy {
namespace {

std::string Hexadecimal(uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

std::string AddressText(const void* pointer) {
  return Hexadecimal(reinterpret_cast<uintptr_t>(pointer));
}

// Of what an adaptor knows. A child's copy of its lock may be held for ever by a thread that is not
// there: this is asked before that is taken.
class OfProcess {
 public:
  Status CheckProcess() const {
    return client::ForkGuard::CheckObject(made_in_, "memory resource");
  }

 private:
  const uint64_t made_in_ = client::ForkGuard::Generation();
};

// The sizes of what was allocated through an adaptor, so that what comes back without one is
// counted rightly. Not thread-safe.
class Sizes {
 public:
  void Add(const void* pointer, uint64_t bytes) { sizes_[pointer] = bytes; }
  // 0 for what was not allocated through it.
  uint64_t Take(const void* pointer) {
    const auto found = sizes_.find(pointer);
    if (found == sizes_.end()) return 0;
    const uint64_t bytes = found->second;
    sizes_.erase(found);
    return bytes;
  }

 private:
  std::unordered_map<const void*, uint64_t> sizes_;
};

}  // namespace

LoggingResource::LoggingResource(std::shared_ptr<MemoryResource> upstream, Sink sink)
    : upstream_(std::move(upstream)), sink_(std::move(sink)) {}

Result<void*> LoggingResource::Allocate(uint64_t bytes, StreamHandle stream) {
  Result<void*> made = upstream_->Allocate(bytes, stream);
  sink_("allocate " + std::to_string(bytes) + " stream " + Hexadecimal(stream) + ": " +
        (made.ok() ? AddressText(*made) : made.status().ToString()));
  return made;
}

Status LoggingResource::Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) {
  Status done = upstream_->Deallocate(pointer, bytes, stream);
  sink_("deallocate " + AddressText(pointer) + " stream " + Hexadecimal(stream) + ": " +
        done.ToString());
  return done;
}

struct LimitingResource::State : OfProcess {
  mutable Mutex mutex;
  uint64_t in_use ONECOPY_GUARDED_BY(mutex) = 0;
  Sizes sizes ONECOPY_GUARDED_BY(mutex);
};

LimitingResource::LimitingResource(std::shared_ptr<MemoryResource> upstream, uint64_t limit_bytes)
    : upstream_(std::move(upstream)),
      limit_bytes_(limit_bytes),
      state_(std::make_unique<State>()) {}
LimitingResource::~LimitingResource() = default;

Result<void*> LimitingResource::Allocate(uint64_t bytes, StreamHandle stream) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  {
    const MutexLock lock(state_->mutex);
    if (bytes > limit_bytes_ - state_->in_use) {
      return Status(Code::kResourceExhausted, reasons::kQuota,
                    FormatBytes(bytes) + " exceed what is left of the limit of " +
                        FormatBytes(limit_bytes_) + ", of which " + FormatBytes(state_->in_use) +
                        " are in use",
                    "free some memory, or raise the limit");
    }
    state_->in_use += bytes;
  }
  Result<void*> made = upstream_->Allocate(bytes, stream);
  const MutexLock lock(state_->mutex);
  if (made.ok()) {
    state_->sizes.Add(*made, bytes);
  } else {
    state_->in_use -= bytes;
  }
  return made;
}

// With the lock over the upstream's call in this and the following ones: the memory could be
// another's as soon as it is given back.
Status LimitingResource::Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) {
  if (pointer == nullptr) return OkStatus();
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  const MutexLock lock(state_->mutex);
  ONECOPY_RETURN_IF_ERROR(upstream_->Deallocate(pointer, bytes, stream));
  state_->in_use -= state_->sizes.Take(pointer);
  return OkStatus();
}

uint64_t LimitingResource::bytes_in_use() const {
  if (!state_->CheckProcess().ok()) return 0;
  const MutexLock lock(state_->mutex);
  return state_->in_use;
}

struct StatisticsResource::State : OfProcess {
  mutable Mutex mutex;
  ResourceCounts counts ONECOPY_GUARDED_BY(mutex);
  Sizes sizes ONECOPY_GUARDED_BY(mutex);
};

StatisticsResource::StatisticsResource(std::shared_ptr<MemoryResource> upstream)
    : upstream_(std::move(upstream)), state_(std::make_unique<State>()) {}
StatisticsResource::~StatisticsResource() = default;

Result<void*> StatisticsResource::Allocate(uint64_t bytes, StreamHandle stream) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  const MutexLock lock(state_->mutex);
  ResourceCounts& counts = state_->counts;
  Result<void*> made = upstream_->Allocate(bytes, stream);
  if (!made.ok()) {
    ++counts.failures;
    return made;
  }
  ++counts.allocations;
  counts.total_bytes += bytes;
  counts.bytes_in_use += bytes;
  counts.peak_bytes = std::max(counts.peak_bytes, counts.bytes_in_use);
  state_->sizes.Add(*made, bytes);
  return made;
}

Status StatisticsResource::Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) {
  if (pointer == nullptr) return OkStatus();
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  const MutexLock lock(state_->mutex);
  Status done = upstream_->Deallocate(pointer, bytes, stream);
  if (!done.ok()) {
    ++state_->counts.failures;
    return done;
  }
  ++state_->counts.deallocations;
  state_->counts.bytes_in_use -= state_->sizes.Take(pointer);
  return done;
}

ResourceCounts StatisticsResource::counts() const {
  if (!state_->CheckProcess().ok()) return {};
  const MutexLock lock(state_->mutex);
  return state_->counts;
}

struct LeakCheckResource::State : OfProcess {
  mutable Mutex mutex;
  uint64_t made ONECOPY_GUARDED_BY(mutex) = 0;
  std::unordered_map<void*, Leak> outstanding ONECOPY_GUARDED_BY(mutex);
};

LeakCheckResource::LeakCheckResource(std::shared_ptr<MemoryResource> upstream, OnLeaks on_leaks)
    : upstream_(std::move(upstream)),
      on_leaks_(std::move(on_leaks)),
      state_(std::make_unique<State>()) {}

LeakCheckResource::~LeakCheckResource() {
  if (!on_leaks_) return;
  if (const std::vector<Leak> leaks = Outstanding(); !leaks.empty()) on_leaks_(leaks);
}

Result<void*> LeakCheckResource::Allocate(uint64_t bytes, StreamHandle stream) {
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  const MutexLock lock(state_->mutex);
  Result<void*> made = upstream_->Allocate(bytes, stream);
  if (made.ok()) state_->outstanding[*made] = {*made, bytes, stream, ++state_->made};
  return made;
}

Status LeakCheckResource::Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) {
  if (pointer == nullptr) return OkStatus();
  ONECOPY_RETURN_IF_ERROR(state_->CheckProcess());
  const MutexLock lock(state_->mutex);
  ONECOPY_RETURN_IF_ERROR(upstream_->Deallocate(pointer, bytes, stream));
  state_->outstanding.erase(pointer);
  return OkStatus();
}

std::vector<LeakCheckResource::Leak> LeakCheckResource::Outstanding() const {
  if (!state_->CheckProcess().ok()) return {};
  std::vector<Leak> list;
  {
    const MutexLock lock(state_->mutex);
    for (const auto& [pointer, leak] : state_->outstanding) list.push_back(leak);
  }
  std::sort(list.begin(), list.end(),
            [](const Leak& a, const Leak& b) { return a.number < b.number; });
  return list;
}

}  // namespace onecopy
