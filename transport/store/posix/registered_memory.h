// Memory that the kernel's side of a ring knows already.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/contracts/region.h"

namespace onecopy::posix {

class HeldMemory;

// What lies in registered memory is read and written without its pages being looked up, pinned and
// released with each call. Memory is registered in parts, each when something is first to be moved
// there, so that nothing is pinned that is not used. The loop's thread of the ring, unless
// something else is said.
//
// A part stands for its region, never for an address: where that has gone its pages may still be
// pinned, and what is mapped there later is other memory.
class RegisteredMemory {
 public:
  static constexpr int kNone = -1;
  struct Shape {
    uint64_t part_bytes = uint64_t{16} << 20;  // whole pages
    unsigned most_parts = 256;
  };

  // `ring` and `held` outlive it. Nothing is registered where the limit on locked memory counts
  // (no CAP_IPC_LOCK, RLIMIT_MEMLOCK finite) for this process: RDMA devices need the same memory,
  // and cannot do without it.
  RegisteredMemory(io_uring& ring, HeldMemory& held, const Shape& shape);
  // Any thread once the loop has ended. The kernel releases the memory with the ring.
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  // From now on parts of it are registered; nothing where it has gone already.
  void Hold(const std::weak_ptr<Region>& memory);
  // Of memory that has gone.
  void LetGo();

  // The part in which all of this lies, until End; kNone if it is not held memory, lies
  // in two parts, the table is full, or the kernel refuses. `region` lives until End.
  int Begin(const Region* region, const std::byte* at, uint64_t bytes);
  void End(int part);

 private:
  struct Held {
    std::weak_ptr<Region> region;
    const Region* key = nullptr;
    std::byte* address = nullptr;
    uint64_t bytes = 0;
    std::vector<int> parts;  // in the table; kNone: not yet, kRefused: never
  };
  struct Part {
    uint64_t bytes = 0;  // 0: free
    unsigned under_way = 0;
    bool gone = false;
  };
  static constexpr int kRefused = -2;

  bool MakeTable();  // once; false: there is none
  int Register(const Held& memory, size_t place);
  void Unregister(int part);
  // How many of the table the kernel has changed, or -errno.
  int Update(int part, std::byte* address, uint64_t bytes);

  io_uring& ring_;
  HeldMemory& told_;
  const Shape shape_;
  bool refused_ = false;
  std::vector<Part> table_;  // empty: not made yet
  std::vector<int> free_;
  std::vector<Held> held_;
};

}  // namespace onecopy::posix
