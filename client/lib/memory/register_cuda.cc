#include "client/lib/memory/register_cuda.h"

#include "onecopy/reasons.h"
#include "onecopy/v1/buffer.pb.h"
#include "proto/codec/utf8.h"
#include "transport/os/memory/dma_buf.h"

namespace onecopy::client {
namespace {

// The buffer works without: only network devices need it.
void AddDmaBuf(AttachSocket& attach, const shim::CudaExport& exported,
               v1::RegisterBufferRequest::DmaBuf& dma_buf) {
  dma_buf.set_refusal(ToUtf8(exported.dmabuf_refusal));
  if (!exported.dmabuf.fd) return;
  // A sandbox's kernel may know nothing of dma-bufs, whatever the driver says: the daemon would
  // refuse it, and the buffer with it.
  if (Status known = os::DmaBufBytes(exported.dmabuf.fd.get()).status(); !known.ok()) {
    return dma_buf.set_refusal(ToUtf8(known.message()));
  }
  const Result<uint64_t> handle = attach.PassDescriptor(exported.dmabuf.fd.get());
  if (!handle.ok()) return dma_buf.set_refusal(ToUtf8(handle.status().message()));
  dma_buf.set_fd_handle(*handle);
  dma_buf.set_offset_bytes(exported.dmabuf.offset);
}

}  // namespace

void AddCudaVmm(uint64_t fd_handle, const std::string& device_uuid, uint64_t offset_bytes,
                uint64_t allocation_bytes, v1::RegisterBufferRequest& request) {
  auto& vmm = *request.mutable_cuda_vmm();
  vmm.set_fd_handle(fd_handle);
  vmm.set_offset_bytes(offset_bytes);
  vmm.set_device(device_uuid);
  vmm.set_allocation_bytes(allocation_bytes);
}

Status AddCuda(AttachSocket& attach, const shim::CudaExport& exported,
               v1::RegisterBufferRequest& request) {
  if (exported.form == "cuda-ipc") {
    auto& ipc = *request.mutable_cuda_ipc();
    ipc.set_handle(exported.handle);
    ipc.set_offset_bytes(exported.offset);
    ipc.set_device(exported.device_uuid);
    AddDmaBuf(attach, exported, *ipc.mutable_dma_buf());
    return OkStatus();
  }
  if (exported.form == "cuda-vmm") {
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t handle, attach.PassDescriptor(exported.fd.get()));
    AddCudaVmm(handle, exported.device_uuid, exported.offset, exported.allocation_bytes, request);
    auto& vmm = *request.mutable_cuda_vmm();
    for (const shim::CudaExport::Allocation& one : exported.more) {
      ONECOPY_ASSIGN_OR_RETURN(const uint64_t behind, attach.PassDescriptor(one.fd.get()));
      auto& more = *vmm.add_more();
      more.set_fd_handle(behind);
      more.set_bytes(one.bytes);
    }
    return OkStatus();
  }
  return {Code::kInternal, reasons::kInternal,
          "GPU memory is shared as \"" + exported.form + "\", which this library does not know"};
}

}  // namespace onecopy::client
