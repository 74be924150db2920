#include "transport/core/ranges/zero_runs.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

using namespace onecopy;

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::byte kOne{1};

// In order, without a gap, of whole grains of the file where they are zero, and true.
void CheckRuns(const Bytes& bytes, uint64_t offset, const std::vector<FileRun>& runs) {
  uint64_t at = 0;
  for (const FileRun& run : runs) {
    CHECK(run.at == at);
    at += run.bytes;
    if (!run.zero) continue;
    CHECK((offset + run.at) % kHoleGrain == 0);
    CHECK(run.bytes % kHoleGrain == 0);
    CHECK(run.bytes >= kLeastHole);
    CHECK(std::all_of(bytes.begin() + static_cast<ptrdiff_t>(run.at),
                      bytes.begin() + static_cast<ptrdiff_t>(run.at + run.bytes),
                      [](std::byte byte) { return byte == std::byte{0}; }));
  }
  CHECK(at == bytes.size());
}

// As a reader without a mind to speed finds them: the longest runs of whole grains.
std::vector<std::pair<uint64_t, uint64_t>> HolesOf(const Bytes& bytes, uint64_t offset) {
  std::vector<std::pair<uint64_t, uint64_t>> holes;
  uint64_t at = (kHoleGrain - offset % kHoleGrain) % kHoleGrain;
  uint64_t begin = at;
  for (; at + kHoleGrain <= bytes.size() + kHoleGrain; at += kHoleGrain) {
    const bool zero = at + kHoleGrain <= bytes.size() &&
                      std::all_of(bytes.begin() + static_cast<ptrdiff_t>(at),
                                  bytes.begin() + static_cast<ptrdiff_t>(at + kHoleGrain),
                                  [](std::byte byte) { return byte == std::byte{0}; });
    if (zero) continue;
    if (at - begin >= kLeastHole) holes.emplace_back(begin, at - begin);
    begin = at + kHoleGrain;
  }
  return holes;
}

std::vector<std::pair<uint64_t, uint64_t>> ZerosOf(const std::vector<FileRun>& runs) {
  std::vector<std::pair<uint64_t, uint64_t>> zeros;
  for (const FileRun& run : runs) {
    if (run.zero) zeros.emplace_back(run.at, run.bytes);
  }
  return zeros;
}

}  // namespace

TEST_CASE("what has no zeros, or few, is one run") {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kHoleGrain, kLeastHole, 3 * kLeastHole}) {
    const auto full = SplitAtZeros(Bytes(bytes, kOne).data(), bytes, 0);
    REQUIRE(full.size() == 1);
    CHECK((full[0].bytes == bytes && !full[0].zero));
  }
  const Bytes little(kLeastHole - 1);
  CHECK(SplitAtZeros(little.data(), little.size(), 0).size() == 1);
}

TEST_CASE("zeros for long are told apart, wherever they begin and end") {
  std::mt19937_64 random(11);
  const auto below = [&](uint64_t most) { return random() % most; };
  for (int round = 0; round < 300; ++round) {
    Bytes bytes(below(12) * kLeastHole + below(2 * kHoleGrain));
    const uint64_t offset = below(2) == 0 ? below(8) * kHoleGrain : below(1 << 20);
    for (uint64_t marks = below(8); marks > 0 && !bytes.empty(); --marks) {
      const uint64_t from = below(bytes.size());
      const uint64_t count = std::min(below(2) == 0 ? 1 : below(kLeastHole), bytes.size() - from);
      std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(from), count, kOne);
    }
    CAPTURE(round, offset, bytes.size());
    const auto runs = SplitAtZeros(bytes.data(), bytes.size(), offset);
    CheckRuns(bytes, offset, runs);
    CHECK(ZerosOf(runs) == HolesOf(bytes, offset));
  }
}
