// Checksums that a real GPU computes of its own memory, compared with a processor's.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "tests/conformance/memory/bytes.h"
#include "tests/gpu/real_gpu.h"
#include "transport/digest/tree.h"

namespace onecopy::testing::sums_test {
namespace {

constexpr uint64_t kLeaf = Memory::kLeafBytes;
constexpr uint64_t kLeaves = 256;

// The best of five: other load only makes a run slower.
template <typename Run>
double BestSeconds(Run run) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace

TEST_CASE("a GPU computes the same checksums as a processor, and faster") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  constexpr uint64_t kOffset = 4096 + 16;
  auto allocated =
      memory->Allocate(memory->Describe().front().device, kLeaves * kLeaf + 2 * kOffset);
  REQUIRE_OK(allocated);
  const RegionRef gpu(std::move(*allocated));
  const Bytes bytes = Pattern(gpu->bytes(), 7);
  WriteAll(*memory, gpu, bytes);
  std::vector<Memory::LeafSum> sums(kLeaves);
  REQUIRE_OK(memory->SumLeaves(*gpu, kOffset, sums));
  std::vector<digest::DigestBytes> computed(kLeaves);
  const double by_processor = BestSeconds([&] {
    for (size_t leaf = 0; leaf < kLeaves; ++leaf) {
      computed[leaf] = digest::DigestOf(bytes.data() + kOffset + leaf * kLeaf, kLeaf);
    }
  });
  CHECK(std::equal(sums.begin(), sums.end(), computed.begin()));
  const double by_gpu = BestSeconds([&] { REQUIRE_OK(memory->SumLeaves(*gpu, kOffset, sums)); });
  std::printf("%llu MiB: by the GPU in %.2f ms, by a processor, from host memory, in %.2f ms\n",
              static_cast<unsigned long long>(kLeaves), by_gpu * 1e3, by_processor * 1e3);
  CHECK(by_gpu < by_processor / 4);
}

}  // namespace onecopy::testing::sums_test
