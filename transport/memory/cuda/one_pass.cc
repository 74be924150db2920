#include "transport/memory/cuda/one_pass.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// On two H200s a detour takes 10 times as long from 1 MiB on and 7 times for 4 KiB copied again and
// again; what is one pass, up to 1.5 times.
constexpr double kDetour = 3;
// Of what should have crossed NVLink; small packets and other processes only ever add to it.
constexpr double kMinCounted = 0.8;
constexpr uint64_t kMaxBytes = 4 << 20;
constexpr uint64_t kMinScratch = 64 << 10;
constexpr uint64_t kBytesOfARound = 1 << 20;
constexpr unsigned kMaxCopies = 16;
constexpr unsigned kRounds = 5;
// What was slow is tried again before it is believed: something may have been in the way.
constexpr unsigned kTries = 3;

// Memory of a GPU's own for a while.
class Scratch {
 public:
  Scratch(Gpu& gpu, uint64_t bytes) : gpu_(gpu) {
    const shim::ScopedCudaContext scope(gpu.api(), gpu.context());
    error_ = scope.outcome();
    if (error_ == CUDA_SUCCESS) error_ = gpu.api().MemAlloc(&address_, bytes);
    if (error_ != CUDA_SUCCESS) address_ = 0;
  }
  ~Scratch() {
    if (address_ == 0) return;
    const shim::ScopedCudaContext scope(gpu_.api(), gpu_.context());
    gpu_.api().MemFree(address_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  CUresult error() const { return error_; }
  CUdeviceptr address() const { return address_; }

 private:
  Gpu& gpu_;
  CUresult error_ = CUDA_SUCCESS;
  CUdeviceptr address_ = 0;
};

// A stream of the current context.
class Stream {
 public:
  explicit Stream(const shim::CudaApi& api)
      : api_(api), error_(api.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING)) {}
  ~Stream() {
    if (stream_ == nullptr) return;
    api_.StreamSynchronize(stream_);
    api_.StreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUresult error() const { return error_; }

  // The seconds that `copies` copies take, one behind the other.
  CUresult Time(CUdeviceptr from, CUdeviceptr to, uint64_t bytes, unsigned copies,
                double* seconds) {
    const Clock::time_point begin = Clock::now();
    CUresult error = CUDA_SUCCESS;
    for (unsigned i = 0; i < copies && error == CUDA_SUCCESS; ++i) {
      error = api_.MemcpyDtoDAsync(to, from, bytes, stream_);
    }
    const CUresult ended = api_.StreamSynchronize(stream_);
    *seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return error != CUDA_SUCCESS ? error : ended;
  }

 private:
  const shim::CudaApi& api_;
  CUstream stream_ = nullptr;
  CUresult error_;
};

// The quickest of several rounds, and what NVLink counted of all.
struct Measured {
  double seconds = 0;
  std::optional<uint64_t> counted;
  uint64_t copied = 0;
};

std::string Microseconds(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f us", seconds * 1e6);
  return text.data();
}

std::string Times(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", ratio);
  return text.data();
}

// One look at one way.
class Look {
 public:
  Look(const OnePass::Pair& way, const NvlinkCounters& counters, uint64_t bytes)
      : way_(way),
        counters_(counters),
        bytes_(bytes),
        copies_(
            static_cast<unsigned>(std::clamp<uint64_t>(kBytesOfARound / bytes, 1, kMaxCopies))) {}

  // NO_MEMORY without room to look; GPU_LOST.
  Result<OnePass::Seen> Run(CUdeviceptr from, CUdeviceptr to) {
    const shim::CudaApi& api = way_.from->api();
    const Scratch there(*way_.to, bytes_);
    const Scratch here(*way_.from, bytes_);
    const shim::ScopedCudaContext scope(api, way_.from->context());
    CUresult error = scope.outcome();
    for (const Scratch* one : {&there, &here}) {
      if (error == CUDA_SUCCESS) error = one->error();
    }
    if (error != CUDA_SUCCESS) return Unseen(error);
    Stream stream(api);
    error = stream.error();
    for (unsigned tried = 0; tried < kTries && error == CUDA_SUCCESS; ++tried) {
      error = Measure(stream, here.address(), there.address(), &own_);
      if (error == CUDA_SUCCESS) error = Measure(stream, from, to, &theirs_);
      if (error == CUDA_SUCCESS && Detour().empty()) break;
    }
    if (error != CUDA_SUCCESS) return Unseen(error);
    const std::string detour = Detour();
    if (detour.empty()) return OnePass::Seen{OkStatus(), Figures()};
    return OnePass::Seen{
        {Code::kFailedPrecondition, reasons::kNotOnePass,
         "the driver does not copy from " + way_.from->ToString() + " to such memory of " +
             way_.to->ToString() + " in one pass: " + detour + ": " + Figures(),
         "use peer-bounce, which goes through host memory and says so; the daemon's own buffers "
         "may do "
         "better"},
        Figures()};
  }

 private:
  CUresult Measure(Stream& stream, CUdeviceptr from, CUdeviceptr to, Measured* measured) {
    double seconds = 0;
    // The first copy on a way does what is done once.
    CUresult error = stream.Time(from, to, bytes_, 1, &seconds);
    const std::optional<uint64_t> before = counters_.sent(way_.from->info().uuid);
    *measured = Measured{0, std::nullopt, uint64_t{kRounds} * copies_ * bytes_};
    for (unsigned round = 0; round < kRounds && error == CUDA_SUCCESS; ++round) {
      error = stream.Time(from, to, bytes_, copies_, &seconds);
      measured->seconds = round == 0 ? seconds : std::min(measured->seconds, seconds);
    }
    const std::optional<uint64_t> after = counters_.sent(way_.from->info().uuid);
    if (before && after) measured->counted = *after - *before;
    return error;
  }

  double Slower() const { return own_.seconds > 0 ? theirs_.seconds / own_.seconds : 1; }

  static bool Crossed(const Measured& measured) {
    return !measured.counted || static_cast<double>(*measured.counted) >=
                                    kMinCounted * static_cast<double>(measured.copied);
  }

  // What speaks against one pass; empty: nothing.
  std::string Detour() const {
    if (Slower() > kDetour) return "it takes far longer than between two memories of this process";
    const auto joined = counters_.joined(way_.from->info().uuid, way_.to->info().uuid);
    if (joined.value_or(false) && !Crossed(theirs_)) return "the bytes did not cross NVLink";
    return {};
  }

  std::string Figures() const {
    std::string text = FormatBytes(bytes_) + " in " + Microseconds(theirs_.seconds / copies_) +
                       ", " + Times(Slower()) +
                       " times as long as between the daemon's own memories (" +
                       Microseconds(own_.seconds / copies_) + ")";
    if (!theirs_.counted) return text + ", NVLink counts nothing";
    return text + "; NVLink counted " + FormatBytes(*theirs_.counted) + " of " +
           FormatBytes(theirs_.copied);
  }

  Status Unseen(CUresult error) const {
    return way_.from->Failure(error,
                              "looking with " + FormatBytes(bytes_) + " whether copies to " +
                                  way_.to->ToString() + " are made in one pass",
                              Code::kFailedPrecondition, reasons::kNotOnePass,
                              "free some memory of both GPUs");
  }

  const OnePass::Pair& way_;
  const NvlinkCounters& counters_;
  const uint64_t bytes_;
  const unsigned copies_;
  Measured own_;
  Measured theirs_;
};

}  // namespace

std::optional<OnePass::Seen> OnePass::Known(const Pair& way) {
  const MutexLock lock(mutex_);
  const auto found = seen_.find(way);
  if (found == seen_.end()) return std::nullopt;
  return found->second;
}

OnePass::Seen OnePass::Look(const Pair& way, CUdeviceptr from, CUdeviceptr to, uint64_t bytes) {
  // Held throughout: other threads that need the answer wait for it.
  const MutexLock lock(mutex_);
  if (const auto found = seen_.find(way); found != seen_.end()) return found->second;
  // A GPU may be almost full.
  for (uint64_t some = std::min(bytes, kMaxBytes);; some /= 8) {
    Result<Seen> seen = cuda::Look(way, counters_, some).Run(from, to);
    if (seen.ok()) return seen_[way] = std::move(*seen);
    if (seen.status().reason() == reasons::kGpuLost) return {seen.status(), {}};
    if (seen.status().reason() == reasons::kNoMemory && some / 8 >= kMinScratch) continue;
    return {Status(Code::kFailedPrecondition, reasons::kNotOnePass, seen.status().message(),
                   "free some memory of both GPUs"),
            {}};
  }
}

}  // namespace onecopy::cuda
