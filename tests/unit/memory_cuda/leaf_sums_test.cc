// Checksums that a GPU computes of its own memory.
#include <vector>

#include "onecopy/reasons.h"
#include "tests/unit/memory_cuda/rig.h"
#include "transport/digest/tree.h"

namespace leaf_sums_test {
namespace {

using namespace onecopy;
using namespace onecopy::cuda;

constexpr uint64_t kLeaf = Memory::kLeafBytes;

std::vector<Memory::LeafSum> Sum(Rig& rig, const Region& region, uint64_t offset, size_t leaves) {
  std::vector<Memory::LeafSum> sums(leaves);
  REQUIRE_OK(rig.memory().SumLeaves(region, offset, sums));
  return sums;
}

Status TrySum(Rig& rig, const Region& region, uint64_t offset, size_t leaves) {
  std::vector<Memory::LeafSum> sums(leaves);
  return rig.memory().SumLeaves(region, offset, sums);
}

}  // namespace

TEST_CASE("a GPU computes the same checksums of leaves as a processor") {
  Rig rig;
  const uint64_t offset = GENERATE(uint64_t{0}, uint64_t{16}, uint64_t{4096 + 32});
  const RegionRef gpu = rig.Allocate(0, 5 * kLeaf + 4096 * 2);
  const Bytes bytes = Pattern(gpu->bytes(), 7);
  WriteAll(rig.memory(), gpu, bytes);
  const auto sums = Sum(rig, *gpu, offset, 5);
  for (size_t leaf = 0; leaf < sums.size(); ++leaf) {
    INFO(leaf);
    CHECK(sums[leaf] == digest::DigestOf(bytes.data() + offset + leaf * kLeaf, kLeaf));
  }
  // A byte in the last stripe of a leaf changes the checksum of that leaf only.
  Bytes other = bytes;
  other[offset + 3 * kLeaf - 1] ^= 1;
  WriteAll(rig.memory(), gpu, other);
  const auto changed = Sum(rig, *gpu, offset, 5);
  for (size_t leaf = 0; leaf < sums.size(); ++leaf) {
    CHECK((changed[leaf] == sums[leaf]) == (leaf != 2));
  }
}

TEST_CASE("a GPU refuses leaves that its kernel cannot sum") {
  SECTION("bytes that begin between two words") {
    Rig rig;
    const RegionRef gpu = rig.Allocate(0, 2 * kLeaf);
    CHECK(TrySum(rig, *gpu, GENERATE(1, 8, 15), 1).reason() == reasons::kNotApplicable);
  }
  SECTION("where only copy engines may work") {
    Rig rig({.scatter = Scattering::kCopyEngine});
    const RegionRef gpu = rig.Allocate(0, kLeaf);
    CHECK(TrySum(rig, *gpu, 0, 1).reason() == reasons::kNotApplicable);
  }
  SECTION("where the driver does not take the kernel") {
    const ScopedEnvironment without("FAKE_CUDA_NO_KERNEL", "1");
    Rig rig;
    const RegionRef gpu = rig.Allocate(0, kLeaf);
    CHECK(TrySum(rig, *gpu, 0, 1).reason() == reasons::kNotApplicable);
    CHECK(TrySum(rig, *gpu, 0, 1).reason() == reasons::kNotApplicable);
  }
  SECTION("outside") {
    Rig rig;
    const RegionRef gpu = rig.Allocate(0, 2 * kLeaf);
    CHECK(TrySum(rig, *gpu, 16, 2).reason() == reasons::kRangeOutOfBuffer);
  }
}

TEST_CASE("a GPU that is lost while it sums says so") {
  Rig rig;
  rig.api->LaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, CUstream, void**,
                             void**) -> CUresult { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  const RegionRef gpu = rig.Allocate(0, kLeaf);
  CHECK(TrySum(rig, *gpu, 0, 1).reason() == reasons::kGpuLost);
  CHECK_FALSE(rig.viability(0).viable);
}

}  // namespace leaf_sums_test
