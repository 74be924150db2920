// What the fake driver knows; shared by its files.
#pragma once

#include <cuda.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_cuda/fake_cuda.h"

namespace fake_cuda {

inline constexpr size_t kGranularity = size_t{2} << 20;
inline constexpr size_t kDeviceBytes = size_t{4} << 30;

// Of a device's memory by cuMemCreate, counted while anything of it is left.
struct Use {
  explicit Use(size_t of);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  const size_t bytes;
};

// A range of addresses that the driver knows.
struct Range {
  size_t bytes = 0;
  FakeCudaKind kind = FAKE_CUDA_LEGACY;
  int device = 0;
  int fd = -1;               // the memfd behind it
  bool imported = false;     // from another process; `device` is then whose context opened it
  std::set<int> reached_by;  // VMM only
  uint64_t id = NextId();
  std::shared_ptr<Use> use = {};

  static uint64_t NextId() {
    static std::atomic<uint64_t> last = 0;
    return ++last;
  }
};

struct Reservation {
  size_t bytes = 0;
};

struct Context {
  int device = 0;
  unsigned retains = 0;
  std::set<Context*> peers;  // whose memory it reaches
  std::map<void*, size_t> pins;
  std::map<std::string, CUdeviceptr> ipc;
  int streams = 0;
  int events = 0;
};

struct State {
  std::mutex mutex;
  bool initialised = false;
  int devices = 0;
  std::map<int, Context> contexts;  // by device; the primary ones
  std::map<CUdeviceptr, Range> ranges;
  std::map<CUdeviceptr, Reservation> reservations;
  std::map<CUmemGenericAllocationHandle, Range> allocations;  // of cuMemCreate, not mapped
  CUmemGenericAllocationHandle next_allocation = 1;
  int leaks = 0;
  size_t staged_bytes = 0;  // of copies that took a detour through host memory
  std::atomic<size_t> room = 0;
  std::atomic<size_t> used = 0;
  std::atomic<bool> ended = false;
  std::atomic<int> captures = 0;  // streams that capture
};

State& TheState();

// Notes a call that a capture of another thread does not stand.
void NoteUnsafe();
// Notes one that no capture stands.
void NoteSpoiled();

// The calling thread's current context; null when there is none.
Context* Current();

// With the state's mutex held: the range that holds all of [address, address + bytes); null.
const Range* FindRange(CUdeviceptr address, size_t bytes, CUdeviceptr* start = nullptr);

// Whether work of that context reaches these bytes, which lie on a device or in pinned host memory.
// With the state's mutex held.
bool Reaches(const Context& context, uintptr_t address, size_t bytes);
bool IsPinned(const void* address, size_t bytes);

// What stands in the way of giving work to a stream; whether it is the current context's; whose it
// is; and its next piece of work.
CUresult Check(CUstream stream);
bool IsCurrent(CUstream stream);
Context* ContextOf(CUstream stream);
void Submit(CUstream stream, std::function<void()> work);

// A memfd of the device's memory, which tells its device by its name.
int NewMemory(int device, size_t bytes);
// -1 for a descriptor that is no such memfd.
int DeviceOf(int fd);
// Maps all of it somewhere, or at `where`.
void* MapMemory(int fd, size_t bytes, void* where, bool reachable);

}  // namespace fake_cuda
