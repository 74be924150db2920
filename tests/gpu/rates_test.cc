// Bytes verified, rates printed: nothing here fails for being slow.
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

namespace onecopy::testing {
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

void Report(const std::string& what, CopyRoute& route, uint64_t bytes, uint64_t chunk,
            unsigned depth) {
  std::array<double, 5> rates{};
  Move(route, bytes, chunk, depth);
  for (double& rate : rates) {
    rate = static_cast<double>(bytes) / Move(route, bytes, chunk, depth) / 1e9;
  }
  std::sort(rates.begin(), rates.end());
  std::printf("%-42s chunk %6.2f MiB depth %2u: %7.2f GB/s (%.2f to %.2f)\n", what.c_str(),
              static_cast<double>(chunk) / double{kMiB}, depth, rates[2], rates[0], rates[4]);
  std::fflush(stdout);
}

// The plain way: one call of the driver for everything, then wait.
double PlainPeerSeconds(const RegionRef& from, const RegionRef& to, CUdevice device) {
  const shim::CudaApi& api = **TheDriver();
  CUcontext context = nullptr;
  REQUIRE(api.DevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
  double best = 1e9;
  {
    const shim::ScopedCudaContext scope(api, context);
    CUstream stream = nullptr;
    REQUIRE(api.StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      REQUIRE(api.MemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to->address()),
                                  reinterpret_cast<CUdeviceptr>(from->address()), from->bytes(),
                                  stream) == CUDA_SUCCESS);
      REQUIRE(api.StreamSynchronize(stream) == CUDA_SUCCESS);
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      best = std::min(best, seconds);
    }
    api.StreamDestroy(stream);
  }
  api.DevicePrimaryCtxRelease(device);
  return best;
}

TEST_CASE("rates between a GPU and host memory") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  const Bytes content = Pattern(kTotal, 1);
  const RegionRef host = HostRegion(content);
  const RegionRef gpu = AllocateOn(*memory, 0, kTotal);
  auto up = memory->Prepare(host, gpu);
  REQUIRE_OK(up);
  Report("host to GPU", **up, kTotal, (*up)->chunk_bytes(), (*up)->depth());
  Report("host to GPU, slots", **up, kTotal, kMiB, 8);
  Report("host to GPU, slots", **up, kTotal, kMiB, 16);
  Report("host to GPU, 4 KiB one by one", **up, 4 * kMiB, 4096, 1);
  up->reset();
  std::memset(host->address(), 0, host->bytes());
  auto down = memory->Prepare(gpu, host);
  REQUIRE_OK(down);
  Report("GPU to host", **down, kTotal, (*down)->chunk_bytes(), (*down)->depth());
  Report("GPU to host, slots", **down, kTotal, kMiB, 8);
  Report("GPU to host, slots", **down, kTotal, kMiB, 16);
  CHECK(std::memcmp(host->address(), content.data(), content.size()) == 0);
}

TEST_CASE("rates inside a GPU") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  const RegionRef from = AllocateOn(*memory, 0, kTotal);
  const RegionRef to = AllocateOn(*memory, 0, kTotal);
  auto route = memory->Prepare(from, to);
  REQUIRE_OK(route);
  Report("inside a GPU", **route, kTotal, (*route)->chunk_bytes(), (*route)->depth());
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
  const auto gpus = cuda::ListGpus(**TheDriver());
  REQUIRE_OK(gpus);
  const double plain = PlainPeerSeconds(from, to, gpus->front().device);
  std::printf("between GPUs, one plain copy of the driver: %.2f GB/s (best of 5)\n",
              static_cast<double>(kTotal) / plain / 1e9);
  Report("between GPUs", **route, kTotal, (*route)->chunk_bytes(), (*route)->depth());
  Report("between GPUs", **route, kTotal, 16 * kMiB, 4);
  Report("between GPUs", **route, kTotal, 128 * kMiB, 2);
  Report("between GPUs", **route, kTotal, kTotal, 1);
  Report("between GPUs, 4 KiB one by one", **route, 4 * kMiB, 4096, 1);
  CHECK(ReadAll(*memory, to) == content);
  auto back = memory->Prepare(to, from);
  REQUIRE_OK(back);
  Report("between GPUs, back", **back, kTotal, (*back)->chunk_bytes(), (*back)->depth());

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
  Report("GPU into a client's cudaMalloc memory", **into, 64 * kMiB, 64 * kMiB, 1);
  auto out_of = memory->Prepare(client, from);
  REQUIRE_OK(out_of);
  Report("out of a client's cudaMalloc memory", **out_of, 64 * kMiB, 64 * kMiB, 1);
}

}  // namespace
}  // namespace onecopy::testing
