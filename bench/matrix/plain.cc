#include "bench/matrix/plain.h"

#include <algorithm>
#include <array>
#include <memory>

#include "bench/matrix/plain_pair.h"
#include "bench/measure/statistics.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::bench {
namespace {

// A copy inside a GPU in both directions at once.
constexpr uint64_t kMostBuffers = 4;

using Gpus = std::vector<std::shared_ptr<Gpu>>;

class PlainRun {
 public:
  PlainRun(const PlainOptions& options, Gpus gpus, Matrix* matrix)
      : options_(options), gpus_(std::move(gpus)), matrix_(*matrix) {}

  void MeasureOff() {
    for (PairFigures& pair : matrix_.pairs) {
      Began("P2P off and through the host", pair);
      const auto plain = Open(pair);
      if (!plain.ok()) {
        FailAll(plain.status(), &pair.p2p_off);
        pair.through_host_bytes_per_second = plain.status();
        continue;
      }
      Measure(**plain, OkStatus(), OkStatus(), &pair.p2p_off);
      pair.through_host_bytes_per_second = Median(
          (*plain)->CheckThroughHost(), [&] { return (*plain)->ThroughHostBytesPerSecond(); });
    }
  }

  void MeasureOn() {
    std::vector<Status> reached;
    for (const PairFigures& pair : matrix_.pairs) reached.push_back(Enable(pair));
    for (PairFigures& pair : matrix_.pairs) {
      Began("P2P on", pair);
      const Status& there = reached[pair.from * gpus_.size() + pair.to];
      const Status& back = reached[pair.to * gpus_.size() + pair.from];
      if (!there.ok()) {
        FailAll(there, &pair.p2p_on);
        continue;
      }
      const auto plain = Open(pair);
      if (!plain.ok()) {
        FailAll(plain.status(), &pair.p2p_on);
        continue;
      }
      Measure(**plain, there, back, &pair.p2p_on);
    }
  }

 private:
  bool Stopped() const { return options_.stopped && options_.stopped(); }

  void Began(const char* what, const PairFigures& pair) const {
    if (!options_.began || Stopped()) return;
    options_.began("plain CUDA, " + std::string(what) + ": " + std::to_string(pair.from) + " -> " +
                   std::to_string(pair.to));
  }

  Result<std::unique_ptr<PlainPair>> Open(const PairFigures& pair) const {
    if (Stopped()) return NotMeasured().status();
    return PlainPair::Create(gpus_[pair.from], gpus_[pair.to], matrix_.bytes);
  }

  static void FailAll(const Status& why, PlainFigures* figures) {
    figures->one_way_bytes_per_second = why;
    figures->both_ways_bytes_per_second = why;
    figures->latency_seconds = why;
  }

  // Whether `from` reaches the memory of `to` now.
  Status Enable(const PairFigures& pair) const {
    if (pair.from == pair.to) return OkStatus();
    const shim::CudaApi& api = *options_.api;
    const Gpu& from = *gpus_[pair.from];
    const Gpu& to = *gpus_[pair.to];
    int can = 0;
    ONECOPY_RETURN_IF_ERROR(CudaStatus(
        api, api.DeviceCanAccessPeer(&can, from.device(), to.device()), "cuDeviceCanAccessPeer"));
    if (can == 0) {
      return {Code::kFailedPrecondition, reasons::kNoPeerAccess,
              matrix_.gpus[pair.from].uuid + " cannot reach the memory of " +
                  matrix_.gpus[pair.to].uuid + ", says the driver (cuDeviceCanAccessPeer)"};
    }
    const shim::ScopedCudaContext scope(api, from.context());
    const CUresult error = api.CtxEnablePeerAccess(to.context(), 0);
    if (error == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return OkStatus();
    if (error == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED || error == CUDA_ERROR_TOO_MANY_PEERS) {
      return {Code::kFailedPrecondition, reasons::kNoPeerAccess,
              "cuCtxEnablePeerAccess: " + shim::CudaErrorText(api, error)};
    }
    return CudaStatus(api, error, "cuCtxEnablePeerAccess");
  }

  // `back`: whether copies in the other direction can be had.
  void Measure(PlainPair& plain, const Status& there, const Status& back, PlainFigures* figures) {
    const Status right = there.ok() ? plain.CheckOneWay() : there;
    figures->one_way_bytes_per_second = Median(right, [&] { return plain.OneWayBytesPerSecond(); });
    figures->both_ways_bytes_per_second =
        Median(right.ok() ? back : right, [&] { return plain.BothWaysBytesPerSecond(); });
    figures->latency_seconds = Median(right, [&] { return plain.LatencySeconds(); });
  }

  // Of several samples after one that does not count.
  template <typename Sample>
  Figure Median(const Status& possible, const Sample& sample) const {
    ONECOPY_RETURN_IF_ERROR(possible);
    std::vector<double> values;
    for (unsigned i = 0; i <= matrix_.samples; ++i) {
      if (Stopped()) return NotMeasured();
      ONECOPY_ASSIGN_OR_RETURN(const double value, sample());
      if (i > 0) values.push_back(value);
    }
    return Summarise(std::move(values)).median;
  }

  const PlainOptions& options_;
  const Gpus gpus_;
  Matrix& matrix_;
};

}  // namespace

Result<std::vector<MatrixGpu>> ListGpus(const shim::CudaApi& api) {
  int count = 0;
  ONECOPY_RETURN_IF_ERROR(CudaStatus(api, api.DeviceGetCount(&count), "counting GPUs"));
  std::vector<MatrixGpu> gpus;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    ONECOPY_RETURN_IF_ERROR(CudaStatus(api, api.DeviceGet(&device, i), "looking for GPUs"));
    ONECOPY_ASSIGN_OR_RETURN(const shim::CudaUuid uuid, shim::ReadCudaUuid(api, device));
    std::array<char, 128> name{};
    size_t bytes = 0;
    ONECOPY_RETURN_IF_ERROR(CudaStatus(api, api.DeviceGetName(name.data(), name.size() - 1, device),
                                       "asking for a GPU's name"));
    ONECOPY_RETURN_IF_ERROR(
        CudaStatus(api, api.DeviceTotalMem(&bytes, device), "asking for a GPU's memory"));
    gpus.push_back({name.data(), uuid.text, bytes});
  }
  return gpus;
}

Status CheckSize(uint64_t bytes, const std::vector<MatrixGpu>& gpus) {
  if (bytes == 0) {
    return {Code::kInvalidArgument, reasons::kBadArgument, "--size must be at least 1"};
  }
  for (const MatrixGpu& gpu : gpus) {
    if (bytes <= gpu.memory_bytes / kMostBuffers) continue;
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--size " + FormatBytes(bytes) + " is too large: " + std::to_string(kMostBuffers) +
                " buffers of that size must fit into the " + FormatBytes(gpu.memory_bytes) +
                " of " + gpu.uuid};
  }
  return OkStatus();
}

Status MeasurePlain(const PlainOptions& options, Matrix* matrix) {
  Gpus gpus;
  for (const MatrixGpu& gpu : matrix->gpus) {
    ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<Gpu> open, Gpu::Open(options.api, gpu.uuid));
    gpus.push_back(std::move(open));
  }
  PlainRun run(options, std::move(gpus), matrix);
  run.MeasureOff();
  run.MeasureOn();
  return OkStatus();
}

}  // namespace onecopy::bench
