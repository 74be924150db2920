// Memory of another process, as that process passed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace onecopy {

class ClientSlab;

// How many allocations of cuMemCreate one buffer may lie in.
inline constexpr size_t kMaxAllocations = 512;

struct ImportRequest {
  // Of cuMemCreate, behind another one.
  struct Allocation {
    int fd = -1;  // borrowed like ImportRequest::fd
    uint64_t bytes = 0;
  };

  // "memfd", "cuda-ipc", "cuda-vmm", "dmabuf", "process", "process-gpu"; each kind knows its own.
  std::string form;
  std::string device;              // UUID; empty for host memory
  uint64_t bytes = 0;              // of the piece to be registered
  uint64_t offset = 0;             // where the piece begins inside the shared allocation or file
  uint64_t allocation_bytes = 0;   // of the whole allocation, where the form needs it ("cuda-vmm")
  std::vector<Allocation> more;    // "cuda-vmm": which the piece goes on into, in their order
  int fd = -1;                     // borrowed for the call; a backend duplicates what it keeps
  std::string handle;              // the 64 bytes of a legacy IPC handle
  int32_t owner_pid = 0;           // of the client, as the kernel told it
  bool same_pid_namespace = true;  // legacy IPC does not cross PID namespaces

  // A dma-buf of the piece, where the form itself gives network devices none ("cuda-ipc") and the
  // client exported one: borrowed like `fd`. Else why there is none, by the client's word.
  int dmabuf_fd = -1;
  uint64_t dmabuf_offset = 0;  // of the piece's first byte in the descriptor's bytes
  std::string dmabuf_refusal;

  // Of Region::Share: why only the buffer's owner may be given this. It opens more than the piece,
  // or the client could take bytes away under another process's mapping. Empty: every user that may
  // read and write the piece can have it.
  std::string owner_only;

  // Of the last two: the session's slab, null where it has none, and the client's name for the
  // memory.
  std::shared_ptr<ClientSlab> slab;
  uint64_t region = 0;
  bool read_only = false;
};

}  // namespace onecopy
