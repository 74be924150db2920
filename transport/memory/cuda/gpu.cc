#include "transport/memory/cuda/gpu.h"

#include <sys/prctl.h>

#include <cassert>
#include <future>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::cuda {
namespace {

// Between polls, once spinning has lasted long enough.
constexpr std::chrono::microseconds kNap{20};
// The kernel rounds naps up by this much; its default of 50 µs would be longer than the nap.
constexpr unsigned long kTimerSlackNanoseconds = 1000;

// CUDA_ERROR_CONTAINED, which older headers lack.
constexpr int kContained = 226;

// Errors after which every call in the context fails until the process ends.
bool BreaksContext(CUresult error) {
  switch (static_cast<int>(error)) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case kContained:
      return true;
    default:
      return false;
  }
}

}  // namespace

void GpuUse::Reset() {
  if (const std::shared_ptr<Gpu> gpu = std::move(gpu_)) gpu->Release();
}

Gpu::Gpu(std::shared_ptr<const shim::CudaApi> api, GpuInfo info, Options options,
         BeforeClose before_close)
    : api_(std::move(api)),
      info_(std::move(info)),
      options_(options),
      before_close_(std::move(before_close)),
      thread_("gpu-" + std::to_string(info_.ordinal)) {
  thread_.loop().Post([] { ::prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds); });
}

Gpu::~Gpu() {
  // A close that was posted by the last use may not have run yet.
  thread_.RunSync([this] { Close(); });
  thread_.StopAndJoin();
}

Result<GpuUse> Gpu::Use() {
  assert(!loop().InThread());
  ONECOPY_RETURN_IF_ERROR(lost());
  {
    const MutexLock lock(mutex_);
    ++uses_;
  }
  GpuUse use(shared_from_this());
  Status opened;
  thread_.RunSync([&] { opened = Open(); });
  if (!opened.ok()) return opened;
  return use;
}

std::optional<GpuUse> Gpu::UseIfOpen() {
  const MutexLock lock(mutex_);
  if (!open_) return std::nullopt;
  ++uses_;
  return GpuUse(shared_from_this());
}

std::optional<GpuUse> Gpu::UseIfUsed() {
  const MutexLock lock(mutex_);
  if (!open_ || uses_ == 0) return std::nullopt;
  ++uses_;
  return GpuUse(shared_from_this());
}

unsigned Gpu::uses() const {
  const MutexLock lock(mutex_);
  return uses_;
}

void Gpu::Release() {
  {
    const MutexLock lock(mutex_);
    if (--uses_ > 0) return;
  }
  if (options_.keep_open.count() > 0 && lost().ok()) {
    loop().Post([this] { CloseLater(); });
    return;
  }
  // Posted from the own thread: the copier, which closing destroys, may be what is running.
  if (loop().InThread()) {
    loop().Post([this] { CloseUnlessUsed(); });
  } else {
    thread_.RunSync([this] { CloseUnlessUsed(); });
  }
}

Status Gpu::Open() {
  if (context_ != nullptr) return OkStatus();
  CUcontext context = nullptr;
  const std::string what = "opening a context on " + ToString();
  CUresult error = api_->DevicePrimaryCtxRetain(&context, info_.device);
  if (error != CUDA_SUCCESS) {
    return Failure(error, what, Code::kFailedPrecondition, reasons::kDriverFailed,
                   "check the GPU's compute mode and health with nvidia-smi");
  }
  context_ = context;
  error = api_->CtxSetCurrent(context_);
  if (error == CUDA_SUCCESS) {
    copier_ = std::make_unique<Copier>(*this);
    error = copier_->Open();
  }
  if (error != CUDA_SUCCESS) {
    const Status failure = Failure(error, what, Code::kFailedPrecondition, reasons::kDriverFailed);
    Close();
    return failure;
  }
  loop().SetPoller([this] { return copier_ != nullptr && copier_->Poll(); }, options_.spin, kNap);
  // What has prepared a copy will ask for it soon.
  loop().SetSpin(options_.spin);
  const MutexLock lock(mutex_);
  open_ = true;
  return OkStatus();
}

void Gpu::Settle() {
  thread_.RunSync([this] {
    if (copier_ != nullptr) copier_->Settle();
  });
}

unsigned Gpu::CloseIfUnused() {
  assert(!loop().InThread());
  unsigned uses = 0;
  thread_.RunSync([&] { uses = CloseUnlessUsed(); });
  return uses;
}

void Gpu::CloseLater() {
  loop().CancelTimer(closes_);
  closes_ = loop().RunAfter(options_.keep_open, [this] { CloseUnlessUsed(); });
}

unsigned Gpu::CloseUnlessUsed() {
  {
    const MutexLock lock(mutex_);
    if (uses_ > 0) return uses_;
    open_ = false;
  }
  Close();
  return 0;
}

void Gpu::Close() {
  loop().CancelTimer(std::exchange(closes_, 0));
  if (context_ == nullptr) return;
  before_close_(*this);
  copier_.reset();
  api_->CtxSetCurrent(nullptr);
  api_->DevicePrimaryCtxRelease(info_.device);
  context_ = nullptr;
  loop().SetSpin({});
}

Status Gpu::lost() const {
  const MutexLock lock(mutex_);
  return lost_;
}

Status Gpu::MarkLost(const std::string& why) {
  const MutexLock lock(mutex_);
  if (lost_.ok()) {
    lost_ = Status(Code::kFailedPrecondition, reasons::kGpuLost,
                   ToString() + " can no longer be used by this process: " + why,
                   "restart onecopyd, and check the kernel log for NVRM messages (Xid)");
  }
  return lost_;
}

Status Gpu::Failure(CUresult error, const std::string& what, Code code, std::string_view reason,
                    const std::string& remedy) {
  const std::string text = what + ": " + shim::CudaErrorText(*api_, error);
  if (BreaksContext(error)) return MarkLost(text);
  if (error == CUDA_ERROR_OUT_OF_MEMORY) {
    return {Code::kResourceExhausted, reasons::kNoMemory, text,
            "free memory of the GPU, or use another one"};
  }
  return {code, reason, text, remedy};
}

Status Gpu::WorkFailure(CUresult error, const std::string& what) {
  if (error == CUDA_ERROR_UNKNOWN) {
    return MarkLost(what + ": " + shim::CudaErrorText(*api_, error));
  }
  return Failure(error, what, Code::kInternal, reasons::kInternal);
}

Status Gpu::Zero(CUdeviceptr address, uint64_t bytes) {
  assert(!loop().InThread());
  std::promise<Status> done;
  std::future<Status> ended = done.get_future();
  // The promise goes along: it must outlive its own set_value().
  loop().Post([this, address, bytes, done = std::move(done)]() mutable {
    copier_->Zero(address, bytes,
                  [done = std::move(done)](const Status& status, const StepList&) mutable {
                    done.set_value(status);
                  });
  });
  return ended.get();
}

Status Gpu::SumLeaves(CUdeviceptr first, std::span<SumDigest> sums) {
  assert(!loop().InThread());
  std::promise<Status> done;
  std::future<Status> ended = done.get_future();
  // Likewise.
  loop().Post([this, first, sums, done = std::move(done)]() mutable {
    copier_->SumLeaves(first, sums, [done = std::move(done)](const Status& status) mutable {
      done.set_value(status);
    });
  });
  return ended.get();
}

std::string Gpu::ToString() const {
  return "cuda:" + std::to_string(info_.ordinal) + " (" + info_.uuid + ")";
}

}  // namespace onecopy::cuda
