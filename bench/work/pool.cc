// Pieces of a pool on a GPU, allocated and freed, beside the same by the driver.
#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "bench/work/gpus.h"
#include "bench/work/works.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kSizes[] = {uint64_t{64} << 10, uint64_t{1} << 20, uint64_t{64} << 20};
constexpr int kPairs = 20'000;    // of a sample of what takes less than a microsecond
constexpr int kSlowPairs = 200;   // of what goes to the kernel
constexpr int kWarmUpPairs = 10;  // before each sample

// Allocates and frees once.
using HaveOnce = std::function<Status(uint64_t bytes)>;

// One way to have memory. `finish`: after each sample, outside its time.
struct WayToHave {
  std::string name;
  int pairs = kPairs;
  HaveOnce pair;
  std::function<Status()> finish = [] { return OkStatus(); };
};

Result<double> PairsPerSecond(const WayToHave& way, uint64_t bytes) {
  for (int i = 0; i < kWarmUpPairs; ++i) ONECOPY_RETURN_IF_ERROR(way.pair(bytes));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < way.pairs; ++i) ONECOPY_RETURN_IF_ERROR(way.pair(bytes));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ONECOPY_RETURN_IF_ERROR(way.finish());
  return way.pairs / seconds;
}

// Both take turns, and who begins takes turns, too.
Row Held(Row row, const WayToHave& work, const WayToHave& ceiling, const Settings& settings) {
  const auto take = [&row](const WayToHave& way, std::vector<double>& into) -> Status {
    ONECOPY_ASSIGN_OR_RETURN(const double rate, PairsPerSecond(way, row.bytes));
    into.push_back(rate);
    return OkStatus();
  };
  for (unsigned i = 0; i < settings.samples; ++i) {
    if (settings.stopped && settings.stopped()) {
      return Failed(std::move(row), {Code::kCancelled, reasons::kCancelled, "the run was stopped"});
    }
    Status status;
    for (const bool of_ceiling : {i % 2 == 0, i % 2 != 0}) {
      if (!status.ok()) break;
      status = of_ceiling ? take(ceiling, row.ceiling_values) : take(work, row.values);
    }
    if (!status.ok()) {
      row.values.resize(std::min(row.values.size(), row.ceiling_values.size()));
      row.ceiling_values.resize(row.values.size());
      return Failed(std::move(row), status);
    }
  }
  return Evaluated(std::move(row));
}

WayToHave OfPool(Pool& pool, StreamHandle stream) {
  return {.name = "pool", .pair = [&pool, stream](uint64_t bytes) -> Status {
            ONECOPY_ASSIGN_OR_RETURN(void* const piece, pool.Allocate(bytes, stream));
            return pool.Deallocate(piece, bytes, stream);
          }};
}

WayToHave OfDriver(const shim::CudaApi& api) {
  return {.name = "cuMemAlloc+cuMemFree",
          .pairs = kSlowPairs,
          .pair = [&api](uint64_t bytes) -> Status {
            CUdeviceptr memory = 0;
            ONECOPY_RETURN_IF_ERROR(CudaStatus(api, api.MemAlloc(&memory, bytes), "cuMemAlloc"));
            return CudaStatus(api, api.MemFree(memory), "cuMemFree");
          }};
}

WayToHave OfDriversPool(const shim::CudaApi& api, CUstream stream) {
  return {.name = "cuMemAllocAsync+cuMemFreeAsync",
          .pair = [&api, stream](uint64_t bytes) -> Status {
            CUdeviceptr memory = 0;
            ONECOPY_RETURN_IF_ERROR(
                CudaStatus(api, api.MemAllocAsync(&memory, bytes, stream), "cuMemAllocAsync"));
            return CudaStatus(api, api.MemFreeAsync(memory, stream), "cuMemFreeAsync");
          },
          .finish =
              [&api, stream] {
                return CudaStatus(api, api.StreamSynchronize(stream), "cuStreamSynchronize");
              }};
}

// As cuDeviceGet counts.
Result<int> NumberOf(const Gpu& gpu) {
  int count = 0;
  ONECOPY_RETURN_IF_ERROR(
      CudaStatus(gpu.api(), gpu.api().DeviceGetCount(&count), "cuDeviceGetCount"));
  for (int number = 0; number < count; ++number) {
    CUdevice device = 0;
    if (gpu.api().DeviceGet(&device, number) == CUDA_SUCCESS && device == gpu.device()) {
      return number;
    }
  }
  return Status(Code::kNotFound, reasons::kDeviceNotFound, "the driver has lost a GPU");
}

Row RowOf(const char* work, uint64_t bytes, const char* ceiling, double floor,
          std::optional<double> target) {
  return {.work = work,
          .bytes = bytes,
          .unit = Unit::kPerSecond,
          .ceiling = ceiling,
          .floor = floor,
          .target = target};
}

// Of all sizes, each by the ways that `measure` has for it.
std::vector<Row> AllRows(const std::function<Row(Row, bool own_stream, bool async)>& measure) {
  constexpr const char* kWork = "pool allocate+free";
  std::vector<Row> rows;
  for (const uint64_t bytes : kSizes) {
    rows.push_back(measure(RowOf(kWork, bytes, "cuMemAlloc+cuMemFree", 300, 1000), false, false));
    rows.push_back(
        measure(RowOf(kWork, bytes, "cuMemAllocAsync+cuMemFreeAsync", 3, 10), false, true));
    rows.push_back(measure(
        RowOf("pool allocate+free on a stream", bytes, "cuMemAllocAsync+cuMemFreeAsync", 0.5, {}),
        true, true));
  }
  return rows;
}

std::vector<Row> Measured(const std::shared_ptr<Gpu>& gpu, Pool& pool, const Settings& settings) {
  const shim::CudaApi& api = gpu->api();
  const shim::ScopedCudaContext scope(api, gpu->context());
  CUstream own = nullptr;
  const Status made =
      CudaStatus(api, api.StreamCreate(&own, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  std::vector<Row> rows = AllRows([&](Row row, bool own_stream, bool async) {
    if (!made.ok()) return Failed(std::move(row), made);
    if (async && (api.MemAllocAsync == nullptr || api.MemFreeAsync == nullptr)) {
      return Waived(std::move(row), {Code::kFailedPrecondition, reasons::kDriverTooOld,
                                     "the driver has no cuMemAllocAsync"});
    }
    CUstream const stream = own_stream ? own : nullptr;
    const WayToHave work = OfPool(pool, reinterpret_cast<StreamHandle>(stream));
    return Held(std::move(row), work, async ? OfDriversPool(api, stream) : OfDriver(api), settings);
  });
  if (made.ok()) {
    static_cast<void>(pool.ReleaseStream(reinterpret_cast<StreamHandle>(own)));
    api.StreamDestroy(own);
  }
  return rows;
}

}  // namespace

std::vector<Row> PoolAllocation(const Settings& settings) {
  const auto none = [](Row (*as)(Row, const Status&), const Status& why) {
    return AllRows([&](Row row, bool, bool) { return as(std::move(row), why); });
  };
  const auto api = shim::LoadCuda(settings.daemon.cuda_library);
  if (!api.ok()) return none(Waived, api.status());
  const Result<Environment> environment = Environment::Open(settings.given, settings.daemon);
  if (!environment.ok()) return none(NotSetUp, environment.status());
  const auto gpus = UsableGpus(environment->here);
  if (!gpus.ok()) return none(Waived, gpus.status());
  const auto gpu = Gpu::Open(*api, gpus->front().device);
  if (!gpu.ok()) return none(NotSetUp, gpu.status());
  const auto number = NumberOf(**gpu);
  if (!number.ok()) return none(Failed, number.status());
  Result<Client> client = Client::Connect({.run_dir = environment->here.run_dir,
                                           .program = "onecopy-bench",
                                           .cuda_library = settings.daemon.cuda_library});
  if (!client.ok()) return none(Failed, client.status());
  const auto pool = client->CreatePool({.cuda_device = *number});
  if (!pool.ok()) return none(NotSetUp, pool.status());
  return Measured(*gpu, **pool, settings);
}

}  // namespace onecopy::bench
