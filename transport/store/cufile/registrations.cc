#include "transport/store/cufile/registrations.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "onecopy/reasons.h"
#include "transport/store/cufile/failure.h"

namespace onecopy::cufile {
namespace {

Result<CUdevice> FindDevice(const shim::CudaApi& cuda, const std::string& uuid) {
  int count = 0;
  cuda.DeviceGetCount(&count);
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    if (cuda.DeviceGet(&device, i) != CUDA_SUCCESS) continue;
    const Result<shim::CudaUuid> found = shim::ReadCudaUuid(cuda, device);
    if (found.ok() && found->text == uuid) return device;
  }
  return Status(Code::kFailedPrecondition, reasons::kNoGpu, "there is no GPU " + uuid);
}

}  // namespace

Result<std::unique_ptr<Registration>> Registration::Make(std::shared_ptr<const shim::CuFileApi> api,
                                                         std::shared_ptr<const shim::CudaApi> cuda,
                                                         const Region& memory,
                                                         uint64_t window_bytes) {
  std::unique_ptr<Registration> made(new Registration(std::move(api), std::move(cuda)));
  made->device_ = memory.place().device;
  made->base_ = memory.address();
  ONECOPY_ASSIGN_OR_RETURN(const CUdevice gpu, FindDevice(*made->cuda_, made->device_));
  made->context_.emplace(*made->cuda_, gpu);
  if (const CUresult error = made->context_->outcome(); error != CUDA_SUCCESS) {
    return Status(Code::kFailedPrecondition, reasons::kDriverFailed,
                  "using GPU " + made->device_ + ": " + shim::CudaErrorText(*made->cuda_, error));
  }
  const shim::ScopedCudaContext context(*made->cuda_, made->context_->get());
  const std::string what = "registering memory of GPU " + made->device_;
  const shim::cufile::Error whole = made->api_->RegisterBuffer(made->base_, memory.bytes(), 0);
  made->registered_ = whole.code == 0;
  if (made->registered_) return made;
  if (!IsOutOfBar1(whole) || memory.bytes() <= window_bytes) return Failure(what, whole);
  const shim::cufile::Error window = made->api_->RegisterBuffer(made->base_, window_bytes, 0);
  if (window.code != 0) return Failure(what + " a piece at a time", window);
  made->api_->DeregisterBuffer(made->base_);
  made->windowed_ = true;
  return made;
}

Registration::~Registration() {
  if (!registered_) return;
  const shim::ScopedCudaContext context(*cuda_, context_->get());
  api_->DeregisterBuffer(base_);
}

ssize_t Registration::Move(bool write, shim::cufile::Handle file, uint64_t offset, uint64_t inside,
                           uint64_t bytes) const {
  const shim::ScopedCudaContext context(*cuda_, context_->get());
  std::byte* base = base_;
  if (windowed_) {
    base += inside;
    inside = 0;
    const shim::cufile::Error window = api_->RegisterBuffer(base, bytes, 0);
    if (window.code != 0) return -static_cast<ssize_t>(std::abs(window.code));
  }
  const auto at = static_cast<off_t>(offset);
  const auto from = static_cast<off_t>(inside);
  const ssize_t moved =
      write ? api_->Write(file, base, bytes, at, from) : api_->Read(file, base, bytes, at, from);
  const int native = errno;
  if (windowed_) api_->DeregisterBuffer(base);
  errno = native;
  return moved;
}

std::vector<BatchEnd> Registration::MoveBatch(Batches& batches, bool write,
                                              shim::cufile::Handle file,
                                              std::span<const BatchPiece> pieces,
                                              const std::atomic<bool>& stop) const {
  const shim::ScopedCudaContext context(*cuda_, context_->get());
  return batches.Run(write, file, base_, pieces, stop);
}

Result<std::shared_ptr<const Registration>> Registrations::Attach(const Region& memory) {
  const std::byte* const base = memory.address();
  const MutexLock lock(mutex_);
  auto found = all_.find(base);
  if (found == all_.end()) {
    ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Registration> made,
                             Registration::Make(api_, cuda_, memory, window_bytes_));
    found = all_.emplace(base, Entry{std::move(made), memory.bytes(), 0}).first;
  }
  Entry& entry = found->second;
  if (entry.bytes < memory.bytes()) {
    return Status(
        Code::kFailedPrecondition, reasons::kGpuNotPinnable,
        "memory of GPU " + memory.place().device + " is in use as " + std::to_string(entry.bytes) +
            " bytes already, and this transfer needs it as " + std::to_string(memory.bytes()),
        "wait for the other transfer");
  }
  ++entry.uses;
  return std::shared_ptr<const Registration>(
      entry.registration.get(),
      [self = shared_from_this(), base](const Registration*) { self->Release(base); });
}

void Registrations::Release(const std::byte* base) {
  const MutexLock lock(mutex_);
  const auto found = all_.find(base);
  if (--found->second.uses == 0) all_.erase(found);
}

}  // namespace onecopy::cufile
