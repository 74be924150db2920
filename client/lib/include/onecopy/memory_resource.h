// A source of memory, and adaptors for it: an adaptor is a source that passes every call on to
// another one.
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

// A CUstream (cudaStream_t) as a number; 0 is the default stream, and all that host memory needs.
using StreamHandle = uintptr_t;

// What every allocation begins at a multiple of.
inline constexpr uint64_t kPoolAlignment = 256;

// Modelled on RMM's device_memory_resource, with errors as values. Thread-safe.
class MemoryResource {
 public:
  virtual ~MemoryResource() = default;

  // At least that many bytes, aligned to kPoolAlignment, for work that is given to `stream` from
  // now on. INVALID_ARGUMENT (BAD_SIZE) for none; RESOURCE_EXHAUSTED if no memory is left.
  virtual Result<void*> Allocate(uint64_t bytes, StreamHandle stream = 0) = 0;

  // Gives it back: what was given to `stream` before now may still use it. `bytes` as allocated, or
  // 0 where the caller does not know it any more. Null is nothing. INVALID_ARGUMENT (BAD_POINTER)
  // for what is not allocated, (SIZE_MISMATCH) for another size: nothing has changed then.
  virtual Status Deallocate(void* pointer, uint64_t bytes = 0, StreamHandle stream = 0) = 0;
};

// Tells of each call, after it, on its thread and with no lock held:
// "allocate 4096 stream 0x0: 0x7f…", "deallocate 0x7f… stream 0x0: BAD_POINTER: …".
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

// Allows no more than so many bytes at a time: RESOURCE_EXHAUSTED (QUOTA) beyond, with the upstream
// not asked.
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
  uint64_t allocations = 0;  // that succeeded
  uint64_t deallocations = 0;
  uint64_t failures = 0;  // of both
  uint64_t bytes_in_use = 0;
  uint64_t peak_bytes = 0;   // the most that was in use at once
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

// Knows what has not been given back, and tells `on_leaks` of it where it ends with some left.
class LeakCheckResource final : public MemoryResource {
 public:
  struct Leak {
    void* pointer = nullptr;
    uint64_t bytes = 0;
    StreamHandle stream = 0;
    uint64_t number = 0;  // the how manieth allocation it was, from 1 on
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
