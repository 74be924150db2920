// Memory of another process that the daemon has handed to this one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/buffer.h"
#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy {
namespace v1 {
class AttachReply;
}  // namespace v1

namespace client {

struct GivenMemory {
  BufferInfo buffer;
  std::string form;     // "memfd", "cuda-vmm", "cuda-ipc"
  uint64_t offset = 0;  // of the buffer's first byte in the memory
  uint64_t bytes = 0;   // from there to its last one; more than the buffer's, of one with gaps
  struct Allocation {
    os::UniqueFd fd;
    uint64_t bytes = 0;  // of "cuda-vmm"
  };
  std::vector<Allocation> allocations;  // one behind the other; none of "cuda-ipc"
  std::string handle;                   // of "cuda-ipc"
  os::UniqueFd lease;
};

// What a reply and the descriptors that came with it say. UNAVAILABLE (PEER_INCOMPATIBLE) for what
// is none, RESOURCE_EXHAUSTED where this process may not open so many.
Result<GivenMemory> ReadGiven(const v1::AttachReply& reply, std::vector<os::UniqueFd> fds);

}  // namespace client
}  // namespace onecopy
