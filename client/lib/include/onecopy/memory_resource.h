// A source of memory, and adaptors for it. An adaptor is a source that passes every call on to
// another source. The adaptors that count belong to the process that made them: in a forked child,
// their Allocate and Deallocate fail with FAILED_PRECONDITION (FORKED), and bytes_in_use, counts
// and Outstanding return 0, or nothing, whatever is allocated.
#pragma once

#include "onecopy/language.h"  // first

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "onecopy/result.h"

namespace onecopy {

// A CUstream (cudaStream_t) as a number. 0 is the default stream; use 0 for host memory.
using StreamHandle = uintptr_t;

// Every allocation begins at a multiple of this.
inline constexpr uint64_t kPoolAlignment = 256;

// Modelled on RMM's device_memory_resource, with errors as values. Thread-safe.
class MemoryResource {
 public:
  virtual ~MemoryResource() = default;

  // At least `bytes` bytes, aligned to kPoolAlignment, for work that is queued on `stream` from now
  // on. INVALID_ARGUMENT (BAD_SIZE) for 0 bytes; RESOURCE_EXHAUSTED if no memory is left.
  virtual Result<void*> Allocate(uint64_t bytes, StreamHandle stream = 0) = 0;

  // Returns the memory. Work that was queued on `stream` before may still use it. `bytes`: as
  // allocated, or 0 if you no longer know. Does nothing for null. INVALID_ARGUMENT (BAD_POINTER)
  // for a pointer that is not allocated, (SIZE_MISMATCH) for another size; nothing has changed
  // then.
  virtual Status Deallocate(void* pointer, uint64_t bytes = 0, StreamHandle stream = 0) = 0;
};

// Reports each call, after it, on its thread, without holding a lock: "allocate 4096 stream 0x0:
// 0x7f…", "deallocate 0x7f… stream 0x0: BAD_POINTER: …".
class LoggingResource final : public MemoryResource {
 public:
  using Sink = std::function<void(const std::string& line)>;
  LoggingResource(std::shared_ptr<MemoryResource> upstream, Sink sink);
  Result<void*> Allocate(uint64_t bytes, StreamHandle stream) override;
  Status Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) override;

 private:
  const std::shared_ptr<MemoryResource> upstream_;
  const Sink sink_;
};

// Allows at most `limit_bytes` at a time. Beyond that: RESOURCE_EXHAUSTED (QUOTA), without a call
// of the upstream.
class LimitingResource final : public MemoryResource {
 public:
  LimitingResource(std::shared_ptr<MemoryResource> upstream, uint64_t limit_bytes);
  ~LimitingResource() override;
  Result<void*> Allocate(uint64_t bytes, StreamHandle stream) override;
  Status Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) override;
  uint64_t bytes_in_use() const;

 private:
  struct State;
  const std::shared_ptr<MemoryResource> upstream_;
  const uint64_t limit_bytes_;
  const std::unique_ptr<State> state_;
};

struct ResourceCounts {
  uint64_t allocations = 0;  // successful ones
  uint64_t deallocations = 0;
  uint64_t failures = 0;  // of either
  uint64_t bytes_in_use = 0;
  uint64_t peak_bytes = 0;   // the largest number in use at once
  uint64_t total_bytes = 0;  // of all allocations
};

class StatisticsResource final : public MemoryResource {
 public:
  explicit StatisticsResource(std::shared_ptr<MemoryResource> upstream);
  ~StatisticsResource() override;
  Result<void*> Allocate(uint64_t bytes, StreamHandle stream) override;
  Status Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) override;
  ResourceCounts counts() const;

 private:
  struct State;
  const std::shared_ptr<MemoryResource> upstream_;
  const std::unique_ptr<State> state_;
};

// Knows which allocations were not returned. If some are left when it is destroyed, it calls
// `on_leaks`.
class LeakCheckResource final : public MemoryResource {
 public:
  struct Leak {
    void* pointer = nullptr;
    uint64_t bytes = 0;
    StreamHandle stream = 0;
    uint64_t number = 0;  // counts allocations, from 1 on
  };
  using OnLeaks = std::function<void(const std::vector<Leak>& leaks)>;
  explicit LeakCheckResource(std::shared_ptr<MemoryResource> upstream, OnLeaks on_leaks = {});
  ~LeakCheckResource() override;
  Result<void*> Allocate(uint64_t bytes, StreamHandle stream) override;
  Status Deallocate(void* pointer, uint64_t bytes, StreamHandle stream) override;
  std::vector<Leak> Outstanding() const;  // in order of their numbers

 private:
  struct State;
  const std::shared_ptr<MemoryResource> upstream_;
  const OnLeaks on_leaks_;
  const std::unique_ptr<State> state_;
};

}  // namespace onecopy
