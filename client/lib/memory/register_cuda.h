// GPU memory of this process on its way to the daemon.
#pragma once

#include <cstdint>
#include <string>

#include "client/lib/attach/attach.h"
#include "onecopy/result.h"
#include "transport/shim/cuda_export.h"

namespace onecopy {
namespace v1 {
class RegisterBufferRequest;
}  // namespace v1

namespace client {

// Puts the memory into the request; a descriptor is passed over `attach` first.
Status AddCuda(AttachSocket& attach, const shim::CudaExport& exported,
               v1::RegisterBufferRequest& request);
// The same of one allocation of cuMemCreate, whose descriptor was passed as `fd_handle`.
void AddCudaVmm(uint64_t fd_handle, const std::string& device_uuid, uint64_t offset_bytes,
                uint64_t allocation_bytes, v1::RegisterBufferRequest& request);

}  // namespace client
}  // namespace onecopy
