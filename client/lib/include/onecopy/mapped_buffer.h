// The memory of a buffer of this node, be it the daemon's or another process's, in this process:
// for its own loads and stores, or for kernels on its GPUs.
//
//   auto weights = client->MapBuffer("weights");
//   if (!weights) return Fail(weights.status());
//   Use(weights->data(), weights->bytes());
//   if (auto still = weights->CheckValid(); !still) return Fail(still);
#pragma once

#include "onecopy/language.h"  // first

#include <cstdint>
#include <memory>
#include <optional>

#include "onecopy/buffer.h"
#include "onecopy/status.h"

namespace onecopy {

class Client;

namespace client {
class Mapping;
}  // namespace client

struct MapOptions {
  // Of GPU memory: the GPU on which kernels shall use it, as this process numbers them (cuda:N).
  // The memory stays where it is; another GPU reaches it by peer access, over NVLink or PCIe.
  // Absent: the GPU on which the memory lies.
  std::optional<int> cuda_device = {};
};

// Move-only ownership of a mapping, made by Client::MapBuffer. Keeps the client's connection alive.
// What others do to the bytes meanwhile is seen as it happens, as between threads; nothing orders
// it.
//
// The daemon may take a mapping back: because the buffer goes, with its owner or by request;
// because the right to it ends; because the daemon ends. It reports that (CheckValid,
// revocation_fd), and this process must then close the mapping at once. The daemon cannot do that
// by itself: a process that does not close the mapping can still read and write the memory, within
// the bounds that docs/decisions/mapped-buffers.md describes. Touching it never faults if the
// daemon is gone. Host memory whose owner cuts its file short becomes zeros here, all of it,
// instead of a SIGBUS.
class MappedBuffer {
 public:
  MappedBuffer(MappedBuffer&& other) noexcept;
  MappedBuffer& operator=(MappedBuffer&& other) noexcept;
  ~MappedBuffer();  // as Close

  // The processor's address of host memory; of GPU memory the driver's, for kernels on that GPU and
  // copies by it. Null once closed; what follows is then empty. Of a view, where that begins.
  void* data() const;
  // The buffer's. Of an array with gaps (BufferInfo::array) its elements lie further apart.
  uint64_t bytes() const;
  const BufferInfo& info() const;  // as it was when it was mapped
  // The GPU that uses the memory, as this process numbers it; none for host memory.
  std::optional<int> cuda_device() const;

  // Any thread; one system call, which asks the daemon for nothing. OK while the mapping may be
  // used; else why the daemon has taken it back: ABORTED (OWNER_DIED), NOT_FOUND
  // (BUFFER_NOT_FOUND), PERMISSION_DENIED (NOT_OWNER, GRANT_EXPIRED), UNAVAILABLE (DRAINING),
  // UNAVAILABLE (DAEMON_UNREACHABLE) if the daemon ended without notice; ABORTED
  // (MEMORY_FAULT) where bytes that this process touched were not there. CANCELLED once closed.
  Status CheckValid() const;
  // Readable (POLLIN) from then on that CheckValid fails. Stays this object's, and is not to be
  // read; -1 once closed.
  int revocation_fd() const;

  // Unmaps the memory, and tells the daemon. Whatever still uses it must have ended, GPU work that
  // is queued included. Safe to repeat. FAILED_PRECONDITION (DRIVER_FAILED) with what the driver
  // says. In a child of the process that mapped it GPU memory is left to the parent.
  Status Close();

 private:
  friend class Client;
  explicit MappedBuffer(std::unique_ptr<client::Mapping> mapping);

  std::unique_ptr<client::Mapping> mapping_;  // null once closed
};

}  // namespace onecopy
