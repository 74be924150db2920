// GPU memory of this process on its way to the daemon.
#pragma once

#include <cstdint>
#include <string>

#include "client/lib/attach.h"
#include "transport/core/result.h"
#include "transport/os/unique_fd.h"

namespace onecopy {
namespace v1 {
class RegisterBufferRequest;
}  // namespace v1

namespace client {

// How the memory behind a device pointer can be shared.
struct CudaExport {
  std::string form;         // "cuda-ipc" or "cuda-vmm"
  std::string device_uuid;  // "GPU-…"
  std::string handle;       // "cuda-ipc": the 64 bytes of a legacy IPC handle
  os::UniqueFd fd;          // "cuda-vmm": a POSIX file descriptor of the allocation
  uint64_t offset = 0;      // of the pointer inside the allocation
  uint64_t allocation_bytes = 0;
};

// Finds out what `bytes` from `device_pointer` on are. Any thread; may block in the driver.
// FAILED_PRECONDITION (NOT_SHAREABLE, NO_DRIVER, …) for what cannot be shared.
Result<CudaExport> ExportCuda(uintptr_t device_pointer, uint64_t bytes);

// Puts the memory into the request; a descriptor is passed over `attach` first.
Status AddCuda(AttachSocket& attach, const CudaExport& exported,
               v1::RegisterBufferRequest& request);

}  // namespace client
}  // namespace onecopy
