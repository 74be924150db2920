// Routes move what they should, about as fast as the driver's own copies beside them.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "tests/conformance/memory/bytes.h"
#include "tests/gpu/exporter.h"
#include "tests/gpu/real_gpu.h"
#include "tests/support/event.h"

namespace onecopy::testing::rates_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kTotal = 1024 * kMiB;

RegionRef AllocateOn(Memory& memory, size_t index, uint64_t bytes) {
  auto region = memory.Allocate(memory.Describe().at(index).device, bytes);
  REQUIRE_OK(region);
  return RegionRef(std::move(*region));
}

// Seconds to move `bytes` in pieces of `chunk` with `depth` of them in flight, each completion
// beginning the next, as a pipeline does on the route's own thread.
double Move(CopyRoute& route, uint64_t bytes, uint64_t chunk, unsigned depth) {
  Event ended;
  uint64_t next = 0;
  uint64_t arrived = 0;
  Status failure;
  std::function<void()> start = [&] {
    if (next >= bytes) return;
    const uint64_t at = next;
    const uint64_t length = std::min(chunk, bytes - at);
    next += length;
    route.Copy(at, at, length, [&, length](const Status& status, const StepList&) {
      if (!status.ok()) failure = status;
      arrived += length;
      if (arrived == bytes) return ended.Set();
      start();
    });
  };
  const auto begin = std::chrono::steady_clock::now();
  route.executor().Post([&] {
    for (unsigned i = 0; i < depth; ++i) start();
  });
  ended.Wait();
  const auto end = std::chrono::steady_clock::now();
  REQUIRE_OK(failure);
  return std::chrono::duration<double>(end - begin).count();
}

// The plain way, once: the driver's calls for pieces of `chunk`, each waited for; seconds. Host
// memory must be pinned.
double PlainSeconds(const RegionRef& from, const RegionRef& to, uint64_t bytes, uint64_t chunk) {
  const shim::CudaApi& api = **TheDriver();
  const auto gpus = cuda::ListGpus(api);
  REQUIRE_OK(gpus);
  const std::string& uuid =
      from->place().device.empty() ? to->place().device : from->place().device;
  const auto gpu = std::find_if(gpus->begin(), gpus->end(),
                                [&](const cuda::GpuInfo& one) { return one.uuid == uuid; });
  REQUIRE(gpu != gpus->end());
  const auto at = [](const RegionRef& region, uint64_t offset) {
    return reinterpret_cast<CUdeviceptr>(region->address()) + offset;
  };
  CUcontext context = nullptr;
  REQUIRE(api.DevicePrimaryCtxRetain(&context, gpu->device) == CUDA_SUCCESS);
  double seconds = 0;
  {
    const shim::ScopedCudaContext scope(api, context);
    CUstream stream = nullptr;
    REQUIRE(api.StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t done = 0; done < bytes; done += chunk) {
      const CUresult copied =
          from->place().device.empty()
              ? api.MemcpyHtoDAsync(at(to, done), from->address() + done, chunk, stream)
          : to->place().device.empty()
              ? api.MemcpyDtoHAsync(to->address() + done, at(from, done), chunk, stream)
              : api.MemcpyDtoDAsync(at(to, done), at(from, done), chunk, stream);
      REQUIRE(copied == CUDA_SUCCESS);
      REQUIRE(api.StreamSynchronize(stream) == CUDA_SUCCESS);
    }
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    api.StreamDestroy(stream);
  }
  api.DevicePrimaryCtxRelease(gpu->device);
  return seconds;
}

struct How {
  uint64_t bytes;
  uint64_t chunk;
  unsigned depth;
};

// A route between two regions, held against the plain way for as many bytes: all in one call or,
// where `one_by_one`, in the same pieces. They take turns, so that who else uses the bus meets
// both; of nine rounds' ratios the one in the middle counts. `least`: what it must reach.
void Compare(const std::string& what, CopyRoute& route, const RegionRef& from, const RegionRef& to,
             const How& how, double least, bool one_by_one = false) {
  const uint64_t plain_chunk = one_by_one ? how.chunk : how.bytes;
  const auto gigabytes_per_second = [&](double seconds) {
    return static_cast<double>(how.bytes) / seconds / 1e9;
  };
  Move(route, how.bytes, how.chunk, how.depth);
  PlainSeconds(from, to, how.bytes, plain_chunk);
  std::array<double, 9> rates{};
  std::array<double, 9> ratios{};
  for (size_t i = 0; i < rates.size(); ++i) {
    rates[i] = gigabytes_per_second(Move(route, how.bytes, how.chunk, how.depth));
    ratios[i] = rates[i] / gigabytes_per_second(PlainSeconds(from, to, how.bytes, plain_chunk));
  }
  std::sort(rates.begin(), rates.end());
  std::sort(ratios.begin(), ratios.end());
  const double ratio = ratios[ratios.size() / 2];
  std::printf("%-42s chunk %7.2f MiB depth %2u: %7.2f GB/s (%.2f to %.2f), %.2f (%.2f to %.2f)\n",
              what.c_str(), static_cast<double>(how.chunk) / double{kMiB}, how.depth,
              rates[rates.size() / 2], rates.front(), rates.back(), ratio, ratios.front(),
              ratios.back());
  std::fflush(stdout);
  CHECK(ratio >= least);
}

TEST_CASE("rates between a GPU and host memory") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  const Bytes content = Pattern(kTotal, 1);
  const RegionRef host = HostRegion(content);
  const RegionRef gpu = AllocateOn(*memory, 0, kTotal);
  auto up = memory->Prepare(host, gpu);
  REQUIRE_OK(up);
  Compare("host to GPU", **up, host, gpu, {kTotal, (*up)->chunk_bytes(), (*up)->depth()}, 0.9);
  Compare("host to GPU, slots", **up, host, gpu, {kTotal, kMiB, 8}, 0.75);
  Compare("host to GPU, slots", **up, host, gpu, {kTotal, kMiB, 16}, 0.75);
  Compare("host to GPU, 4 KiB one by one", **up, host, gpu, {4 * kMiB, 4096, 1}, 0.3, true);
  up->reset();
  std::memset(host->address(), 0, host->bytes());
  auto down = memory->Prepare(gpu, host);
  REQUIRE_OK(down);
  Compare("GPU to host", **down, gpu, host, {kTotal, (*down)->chunk_bytes(), (*down)->depth()},
          0.9);
  Compare("GPU to host, slots", **down, gpu, host, {kTotal, kMiB, 8}, 0.75);
  Compare("GPU to host, slots", **down, gpu, host, {kTotal, kMiB, 16}, 0.75);
  CHECK(std::memcmp(host->address(), content.data(), content.size()) == 0);
}

TEST_CASE("rates inside a GPU") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  const RegionRef from = AllocateOn(*memory, 0, kTotal);
  const RegionRef to = AllocateOn(*memory, 0, kTotal);
  auto route = memory->Prepare(from, to);
  REQUIRE_OK(route);
  Compare("inside a GPU", **route, from, to, {kTotal, (*route)->chunk_bytes(), (*route)->depth()},
          0.8);
}

TEST_CASE("rates between GPUs") {
  ONECOPY_NEEDS_GPUS(2);
  const auto memory = RealMemory();
  const Bytes content = Pattern(kTotal, 2);
  const RegionRef from = AllocateOn(*memory, 0, kTotal);
  const RegionRef to = AllocateOn(*memory, 1, kTotal);
  WriteAll(*memory, from, content);
  auto route = memory->Prepare(from, to);
  REQUIRE_OK(route);
  Compare("between GPUs", **route, from, to, {kTotal, (*route)->chunk_bytes(), (*route)->depth()},
          0.85);
  Compare("between GPUs", **route, from, to, {kTotal, 16 * kMiB, 4}, 0.75);
  Compare("between GPUs", **route, from, to, {kTotal, 128 * kMiB, 2}, 0.85);
  Compare("between GPUs", **route, from, to, {kTotal, kTotal, 1}, 0.85);
  Compare("between GPUs, 4 KiB one by one", **route, from, to, {4 * kMiB, 4096, 1}, 0.3, true);
  CHECK(ReadAll(*memory, to) == content);
  auto back = memory->Prepare(to, from);
  REQUIRE_OK(back);
  Compare("between GPUs, back", **back, to, from,
          {kTotal, (*back)->chunk_bytes(), (*back)->depth()}, 0.85);

  Exporter exporter;
  Exporter::Piece piece;
  piece.kind = MemoryKind::kMalloc;
  piece.device = 1;
  piece.allocation_bytes = kTotal;
  const Exported exported = exporter.Allocate(piece, Pattern(64 * kMiB, 3));
  REQUIRE_OK(exported.status);
  auto imported = memory->Import(exported.request);
  REQUIRE_OK(imported);
  const RegionRef client(std::move(*imported));
  auto into = memory->Prepare(from, client);
  REQUIRE_OK(into);
  Compare("GPU into a client's cudaMalloc memory", **into, from, to, {64 * kMiB, 64 * kMiB, 1},
          0.75);
  auto out_of = memory->Prepare(client, from);
  REQUIRE_OK(out_of);
  Compare("out of a client's cudaMalloc memory", **out_of, to, from, {64 * kMiB, 64 * kMiB, 1},
          0.75);
}

}  // namespace
}  // namespace onecopy::testing::rates_test
