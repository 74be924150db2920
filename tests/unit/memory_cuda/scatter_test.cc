// Scattered copies: who makes them, and how they are cut for the kernel.
#include <algorithm>

#include "tests/conformance/memory/bytes.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "transport/memory/cuda/cuda_memory.h"
#include "transport/memory/cuda/tiling.h"

namespace onecopy::cuda {
namespace {

using testing::Bytes;
using testing::CopyManyNow;
using testing::FakeCudaFunction;
using testing::FakeCudaPath;
using testing::HostRegion;
using testing::Pattern;
using testing::ReadAll;
using testing::ScopedEnvironment;

// A column of 1,000 structures, and some ranges, out of host memory into a GPU's.
const std::vector<StridedCopy> kCopies = {
    {8, 0, 4, 32, 4, 1000}, {1, 5000, 700, 0, 0, 1}, {40'000, 10'000, 4096, 0, 0, 1}};

// By what they were copied.
std::string CopiedBy(Scattering scatter, const std::vector<StridedCopy>& copies,
                     const unsigned char* image = testing::FakeScatterImage()) {
  std::string by;
  {
    CudaMemory::Options options;
    options.node = "test";
    options.gpu.scatter = scatter;
    options.gpu.scatter_image = image;
    CudaMemory memory(options, shim::LoadCuda(FakeCudaPath()));
    const Bytes source = Pattern(1 << 20, 61);
    auto to = memory.Allocate(memory.Describe().front().device, 1 << 20);
    REQUIRE_OK(to);
    const RegionRef target(std::move(*to));
    auto route = memory.Prepare(HostRegion(source), target);
    REQUIRE_OK(route);
    const testing::Outcome outcome = CopyManyNow(**route, copies);
    REQUIRE_OK(outcome.status);
    Bytes expected(1 << 20);
    for (const StridedCopy& copy : copies) {
      for (uint64_t i = 0; i < copy.count; ++i) {
        std::copy_n(source.begin() + static_cast<ptrdiff_t>(copy.from + i * copy.from_stride),
                    copy.bytes,
                    expected.begin() + static_cast<ptrdiff_t>(copy.to + i * copy.to_stride));
      }
    }
    CHECK(ReadAll(memory, target) == expected);
    by = outcome.steps->front().by;
  }
  CHECK(FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")() == 0);
  return by;
}

TEST_CASE("short ranges are the kernel's, long ones the copy engines', unless said otherwise") {
  const std::vector<StridedCopy> long_ones = {{0, 600'000, 300'000, 0, 0, 1},
                                              {500'000, 100'000, 300'000, 0, 0, 1}};
  CHECK(CopiedBy(Scattering::kAuto, kCopies) == "gpu-kernel");
  CHECK(CopiedBy(Scattering::kAuto, long_ones) == "copy-engine");
  CHECK(CopiedBy(Scattering::kKernel, long_ones) == "gpu-kernel");
  CHECK(CopiedBy(Scattering::kCopyEngine, kCopies) == "copy-engine");
}

TEST_CASE("a driver that does not take the kernel's image leaves the work to copy engines") {
  const ScopedEnvironment old("FAKE_CUDA_NO_KERNEL", "1");
  CHECK(CopiedBy(Scattering::kAuto, kCopies) == "copy-engine");
  CHECK(CopiedBy(Scattering::kKernel, kCopies) == "copy-engine");
}

TEST_CASE("where this was built without nvcc, copy engines do the work, and the GPU says so") {
  CHECK(CopiedBy(Scattering::kAuto, kCopies, nullptr) == "copy-engine");
  CHECK(CopiedBy(Scattering::kKernel, kCopies, nullptr) == "copy-engine");
  const auto api = shim::LoadCuda(FakeCudaPath());
  REQUIRE_OK(api);
  CudaMemory::Options options;
  options.gpu.scatter_image = nullptr;
  const MemoryCapability without = CudaMemory(options, *api).Describe().at(0);
  CHECK(without.attributes.at("kernels") == "none (built without nvcc)");
  CHECK(without.kernel_below_bytes_host == 0);  // so that plans name copy engines, too
  CHECK(without.kernel_below_bytes_gpu == 0);
  options.gpu.scatter_image = testing::FakeScatterImage();
  CHECK_FALSE(CudaMemory(options, *api).Describe().at(0).attributes.contains("kernels"));
}

TEST_CASE("a GPU says which ranges its kernel will take, as WantsKernel decides") {
  const auto api = shim::LoadCuda(FakeCudaPath());
  REQUIRE_OK(api);
  const auto describe = [&](Scattering scatter) {
    CudaMemory::Options options;
    options.gpu.scatter = scatter;
    options.gpu.scatter_image = testing::FakeScatterImage();
    return CudaMemory(options, *api).Describe().at(0);
  };
  const MemoryCapability gpu = describe(Scattering::kAuto);
  for (const bool host : {true, false}) {
    const uint64_t below = host ? gpu.kernel_below_bytes_host : gpu.kernel_below_bytes_gpu;
    CHECK(WantsKernel(std::vector<StridedCopy>{{0, 0, below - 1, below, below, 2}}, host));
    CHECK_FALSE(WantsKernel(std::vector<StridedCopy>{{0, 0, below, below, below, 2}}, host));
  }
  CHECK(describe(Scattering::kKernel).kernel_below_bytes_host == UINT64_MAX);
  CHECK(describe(Scattering::kKernel).kernel_below_bytes_gpu == UINT64_MAX);
  CHECK(describe(Scattering::kCopyEngine).kernel_below_bytes_host == 0);
  CHECK(describe(Scattering::kCopyEngine).kernel_below_bytes_gpu == 0);
}

TEST_CASE("tiles are of like size and cover each copy once") {
  std::vector<StridedCopy> copies = kCopies;
  copies.push_back({100'000, 200'000, 64 << 20, 0, 0, 1});
  copies.push_back({0, 100 << 20, 4096, 9000, 8192, 100});
  copies.push_back({3, 110 << 20, 200, 301, 200, 100});
  const std::vector<ScatterTile> tiles = TilesOf(copies);
  uint64_t bytes = 0;
  std::vector<std::pair<uint64_t, uint64_t>> written;
  for (const ScatterTile& tile : tiles) {
    const uint64_t payload = uint64_t{tile.bytes} * tile.count;
    CHECK(payload > 0);
    CHECK(payload <= 64 << 10);
    bytes += payload;
    for (uint64_t i = 0; i < tile.count; ++i) {
      const uint64_t at = tile.to + i * tile.to_stride;
      written.emplace_back(at, at + tile.bytes);
    }
  }
  uint64_t payload = 0;
  for (const StridedCopy& copy : copies) payload += copy.payload();
  CHECK(bytes == payload);
  std::sort(written.begin(), written.end());
  const auto twice = std::adjacent_find(written.begin(), written.end(),
                                        [](auto a, auto b) { return b.first < a.second; });
  CHECK(twice == written.end());
}

}  // namespace
}  // namespace onecopy::cuda
