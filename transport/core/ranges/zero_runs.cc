#include "transport/core/ranges/zero_runs.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace onecopy {
namespace {

constexpr std::array<std::byte, kHoleGrain> kZeros{};

bool IsZeroGrain(const std::byte* data) {
  return std::memcmp(data, kZeros.data(), sizeof(uint64_t)) == 0 &&
         std::memcmp(data, kZeros.data(), kHoleGrain) == 0;
}

// How many bytes of whole grains are zero from `at` on, up to `end`.
uint64_t ZerosFrom(const std::byte* data, uint64_t at, uint64_t end) {
  uint64_t zero = at;
  while (zero + kHoleGrain <= end && IsZeroGrain(data + zero)) zero += kHoleGrain;
  return zero - at;
}

}  // namespace

std::vector<FileRun> SplitAtZeros(const std::byte* data, uint64_t bytes, uint64_t offset) {
  const uint64_t lead = (kHoleGrain - offset % kHoleGrain) % kHoleGrain;
  std::vector<FileRun> runs;
  uint64_t told = 0;  // up to where runs say what there is
  // A hole has at least one grain at a multiple of its least length behind the first whole grain.
  for (uint64_t at = lead; at + kHoleGrain <= bytes;) {
    const uint64_t behind = ZerosFrom(data, at, bytes);
    uint64_t begin = at;
    while (behind > 0 && begin >= std::max(told, lead) + kHoleGrain &&
           IsZeroGrain(data + begin - kHoleGrain)) {
      begin -= kHoleGrain;
    }
    const uint64_t end = at + behind;
    at += kLeastHole;
    if (end - begin < kLeastHole) continue;
    if (begin > told) runs.push_back({told, begin - told, false});
    runs.push_back({begin, end - begin, true});
    told = end;
    // The first that is not zero is known: on to the next multiple.
    at = lead + (end - lead + kLeastHole - 1) / kLeastHole * kLeastHole;
  }
  if (told < bytes || runs.empty()) runs.push_back({told, bytes - told, false});
  return runs;
}

}  // namespace onecopy
