#include "bench/matrix/plain_pair.h"

#include <algorithm>

#include "bench/matrix/figures.h"
#include "bench/measure/payload.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
constexpr size_t kSlots = 16;
constexpr uint64_t kCheckedBytes = uint64_t{1} << 20;

}  // namespace

Result<std::unique_ptr<PlainPair>> PlainPair::Create(const std::shared_ptr<Gpu>& from,
                                                     const std::shared_ptr<Gpu>& to,
                                                     uint64_t bytes) {
  std::unique_ptr<PlainPair> pair(new PlainPair(from, to, bytes));
  ONECOPY_RETURN_IF_ERROR(pair->Begin());
  return pair;
}

Status PlainPair::Begin() {
  const shim::CudaApi& api = from_->api();
  const uint64_t bytes = std::max(bytes_, kLatencyCopyBytes);
  const auto allocate = [bytes](const std::shared_ptr<Gpu>& gpu) {
    return GpuMemory::Allocate(gpu, GpuMemoryKind::kMalloc, bytes);
  };
  ONECOPY_ASSIGN_OR_RETURN(source_, allocate(from_));
  ONECOPY_ASSIGN_OR_RETURN(target_, allocate(to_));
  ONECOPY_ASSIGN_OR_RETURN(back_source_, allocate(to_));
  ONECOPY_ASSIGN_OR_RETURN(back_target_, allocate(from_));
  ONECOPY_ASSIGN_OR_RETURN(host_, os::MapAnonymous(kSlots * kPieceBytes));
  ONECOPY_ASSIGN_OR_RETURN(gate_, Gate::Create(from_));
  ONECOPY_ASSIGN_OR_RETURN(forward_, TimedStream::Create(from_));
  ONECOPY_ASSIGN_OR_RETURN(backward_, TimedStream::Create(to_));
  {
    const shim::ScopedCudaContext scope(api, from_->context());
    const CUresult error =
        api.MemHostRegister(host_.data(), host_.bytes(), CU_MEMHOSTREGISTER_PORTABLE);
    pinned_ = error == CUDA_SUCCESS;
    ONECOPY_RETURN_IF_ERROR(CudaStatus(api, error, "pinning host memory"));
  }
  const shim::ScopedCudaContext scope(api, to_->context());
  for (size_t i = 0; i < kSlots; ++i) {
    CUevent event = nullptr;
    ONECOPY_RETURN_IF_ERROR(
        CudaStatus(api, api.EventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
    left_.push_back(event);
  }
  return OkStatus();
}

PlainPair::~PlainPair() {
  const shim::CudaApi& api = from_->api();
  forward_.reset();
  backward_.reset();
  {
    const shim::ScopedCudaContext scope(api, to_->context());
    for (const CUevent event : left_) api.EventDestroy(event);
  }
  const shim::ScopedCudaContext scope(api, from_->context());
  if (pinned_) api.MemHostUnregister(host_.data());
}

Status PlainPair::Copy(const GpuMemory& from, const GpuMemory& to, uint64_t bytes,
                       CUstream stream) const {
  const shim::CudaApi& api = from_->api();
  if (from_ == to_) {
    return CudaStatus(api, api.MemcpyDtoDAsync(to.address(), from.address(), bytes, stream),
                      "cuMemcpyDtoDAsync");
  }
  return CudaStatus(api,
                    api.MemcpyPeerAsync(to.address(), to.gpu().context(), from.address(),
                                        from.gpu().context(), bytes, stream),
                    "cuMemcpyPeerAsync");
}

Status PlainPair::CopyForward(uint64_t bytes, unsigned copies) const {
  for (unsigned i = 0; i < copies; ++i) {
    ONECOPY_RETURN_IF_ERROR(Copy(*source_, *target_, bytes, forward_->stream()));
  }
  return OkStatus();
}

Status PlainPair::CopyBackward(uint64_t bytes) const {
  const shim::ScopedCudaContext scope(to_->api(), to_->context());
  return Copy(*back_source_, *back_target_, bytes, backward_->stream());
}

Result<double> PlainPair::OneWayBytesPerSecond() {
  const auto submit = [this] { return CopyForward(bytes_, kCopiesPerSample); };
  ONECOPY_ASSIGN_OR_RETURN(const double seconds, forward_->Run(submit, gate_.get()));
  return static_cast<double>(bytes_) * kCopiesPerSample / seconds;
}

Result<double> PlainPair::BothWaysBytesPerSecond() {
  const auto submit = [this]() -> Status {
    ONECOPY_RETURN_IF_ERROR(backward_->WaitFor(*forward_));
    for (unsigned i = 0; i < kCopiesPerSample; ++i) {
      ONECOPY_RETURN_IF_ERROR(CopyForward(bytes_, 1));
      ONECOPY_RETURN_IF_ERROR(CopyBackward(bytes_));
    }
    return forward_->WaitFor(*backward_);
  };
  ONECOPY_ASSIGN_OR_RETURN(const double seconds, forward_->Run(submit, gate_.get()));
  return 2 * static_cast<double>(bytes_) * kCopiesPerSample / seconds;
}

Status PlainPair::SubmitThroughHost(uint64_t bytes) {
  const shim::CudaApi& api = from_->api();
  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    const uint64_t length = std::min(kPieceBytes, bytes - at);
    const size_t slot = pieces_ % kSlots;
    std::byte* const host = host_.data() + slot * kPieceBytes;
    if (pieces_++ >= kSlots) {
      ONECOPY_RETURN_IF_ERROR(WaitForEvent(api, forward_->stream(), left_[slot]));
    }
    ONECOPY_RETURN_IF_ERROR(CudaStatus(
        api, api.MemcpyDtoHAsync(host, source_->address() + at, length, forward_->stream()),
        "cuMemcpyDtoHAsync"));
    ONECOPY_RETURN_IF_ERROR(backward_->WaitFor(*forward_));
    const shim::ScopedCudaContext scope(api, to_->context());
    ONECOPY_RETURN_IF_ERROR(CudaStatus(
        api, api.MemcpyHtoDAsync(target_->address() + at, host, length, backward_->stream()),
        "cuMemcpyHtoDAsync"));
    ONECOPY_RETURN_IF_ERROR(
        CudaStatus(api, api.EventRecord(left_[slot], backward_->stream()), "cuEventRecord"));
  }
  return OkStatus();
}

Result<double> PlainPair::ThroughHostBytesPerSecond() {
  ONECOPY_ASSIGN_OR_RETURN(const double seconds, forward_->Run([this]() -> Status {
    for (unsigned i = 0; i < kCopiesPerSample; ++i) {
      ONECOPY_RETURN_IF_ERROR(SubmitThroughHost(bytes_));
    }
    return forward_->WaitFor(*backward_);
  }));
  return static_cast<double>(bytes_) * kCopiesPerSample / seconds;
}

Result<double> PlainPair::LatencySeconds() {
  const auto submit = [this] { return CopyForward(kLatencyCopyBytes, kLatencyCopies); };
  ONECOPY_ASSIGN_OR_RETURN(const double seconds, forward_->Run(submit, gate_.get()));
  return seconds / kLatencyCopies;
}

Status PlainPair::PutPattern(TimedStream& stream, const GpuMemory& memory, uint64_t bytes,
                             uint64_t seed) {
  const shim::CudaApi& api = from_->api();
  FillPayload(host_.data(), bytes, seed);
  return stream
      .Run([&] {
        return CudaStatus(
            api, api.MemcpyHtoDAsync(memory.address(), host_.data(), bytes, stream.stream()),
            "cuMemcpyHtoDAsync");
      })
      .status();
}

Status PlainPair::CheckArrival(const std::function<Status(uint64_t bytes)>& submit) {
  constexpr uint64_t kSeed = 1;
  const shim::CudaApi& api = from_->api();
  const uint64_t bytes = std::min(bytes_, kCheckedBytes);
  ONECOPY_RETURN_IF_ERROR(PutPattern(*backward_, *target_, bytes, kSeed + 1));
  ONECOPY_RETURN_IF_ERROR(PutPattern(*forward_, *source_, bytes, kSeed));
  ONECOPY_RETURN_IF_ERROR(forward_->Run([&] { return submit(bytes); }).status());
  FillPayload(host_.data(), bytes, kSeed + 1);  // nothing right is left there
  ONECOPY_RETURN_IF_ERROR(
      backward_
          ->Run([&] {
            return CudaStatus(
                api,
                api.MemcpyDtoHAsync(host_.data(), target_->address(), bytes, backward_->stream()),
                "cuMemcpyDtoHAsync");
          })
          .status());
  if (!FindWrong(host_.data(), bytes, kSeed)) return OkStatus();
  return {Code::kDataLoss, reasons::kChecksumMismatch, "the bytes of a plain copy arrived changed",
          "if the machine has an IOMMU, check that it lets GPUs reach each other"};
}

Status PlainPair::CheckOneWay() {
  return CheckArrival([this](uint64_t bytes) { return CopyForward(bytes, 1); });
}

Status PlainPair::CheckThroughHost() {
  return CheckArrival([this](uint64_t bytes) -> Status {
    ONECOPY_RETURN_IF_ERROR(SubmitThroughHost(bytes));
    return forward_->WaitFor(*backward_);
  });
}

}  // namespace onecopy::bench
