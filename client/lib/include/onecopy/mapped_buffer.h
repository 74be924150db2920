// The memory of a buffer of this node, mapped into this process: for its own loads and stores, or
// for kernels on its GPUs. The daemon or another process owns the buffer.
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
  // For GPU memory: the GPU whose kernels use it, by its number in this process (cuda:N). The
  // memory stays where it is; another GPU reaches it by peer access, over NVLink or PCIe. Absent:
  // the GPU that has the memory.
  std::optional<int> cuda_device = {};
};

// Owns a mapping; made by Client::MapBuffer. Move-only. Keeps the client's connection alive. What
// others write to the bytes is visible as between threads; nothing orders it.
//
// The daemon can revoke a mapping: because the buffer is removed, its owner ends or asks for that,
// the access right ends, or the daemon ends. It reports this by CheckValid and revocation_fd. This
// process must then close the mapping at once. The daemon cannot do that: a process that does not
// close the mapping can still read and write the memory, within the bounds that
// docs/decisions/mapped-buffers.md describes. Access never faults because the daemon has ended. If
// the owner of host memory truncates its file, the whole memory becomes zeros here, and there is no
// SIGBUS.
class MappedBuffer {
 public:
  MappedBuffer(MappedBuffer&& other) noexcept;
  MappedBuffer& operator=(MappedBuffer&& other) noexcept;
  ~MappedBuffer();  // like Close

  // The address: of host memory, for the processor; of GPU memory, for kernels on cuda_device() and
  // copies by it. For a view, the view's beginning. Null once closed; the members below are then
  // empty.
  void* data() const;
  // The buffer's length. The elements of an array with gaps (BufferInfo::array) lie further apart.
  uint64_t bytes() const;
  const BufferInfo& info() const;  // as it was when it was mapped
  // The GPU that uses the memory, by its number in this process; empty for host memory.
  std::optional<int> cuda_device() const;

  // OK while you may use the mapping; else why the daemon has revoked it: ABORTED (OWNER_DIED),
  // NOT_FOUND (BUFFER_NOT_FOUND), PERMISSION_DENIED (NOT_OWNER, GRANT_EXPIRED), UNAVAILABLE
  // (DRAINING), UNAVAILABLE (DAEMON_UNREACHABLE) if the daemon ended without notice; ABORTED
  // (MEMORY_FAULT) if bytes that this process touched did not exist. CANCELLED once closed. Any
  // thread may call this; it takes one system call and does not call the daemon.
  Status CheckValid() const;
  // Becomes readable (POLLIN) when CheckValid begins to fail. This object owns it; do not read from
  // it. -1 once closed.
  int revocation_fd() const;

  // Unmaps the memory and informs the daemon. Everything that uses the memory must have ended,
  // including queued GPU work. You can call it again. FAILED_PRECONDITION (DRIVER_FAILED) with the
  // driver's message. A forked child of the process that mapped it leaves GPU memory to the parent.
  Status Close();

 private:
  friend class Client;
  explicit MappedBuffer(std::unique_ptr<client::Mapping> mapping);

  std::unique_ptr<client::Mapping> mapping_;  // null once closed
};

}  // namespace onecopy
