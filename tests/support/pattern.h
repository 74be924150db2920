// Bytes that tests know again: each depends on its place and on a seed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace onecopy::testing {

inline std::byte PatternAt(uint64_t offset, uint64_t seed) {
  uint64_t mixed = (offset + 1) * 0x9e3779b97f4a7c15ULL + seed * 0xbf58476d1ce4e5b9ULL;
  mixed ^= mixed >> 29;
  return static_cast<std::byte>(mixed * 0x94d049bb133111ebULL >> 56);
}

// data[i] becomes PatternAt(pattern_offset + i, seed).
void Fill(std::byte* data, uint64_t bytes, uint64_t seed, uint64_t pattern_offset = 0);

// Index of the first byte that is not the pattern's; `bytes` when all are.
uint64_t FirstWrong(const std::byte* data, uint64_t bytes, uint64_t seed,
                    uint64_t pattern_offset = 0);

}  // namespace onecopy::testing
