#include "tests/support/pattern.h"

namespace onecopy::testing {

void Fill(std::byte* data, uint64_t bytes, uint64_t seed, uint64_t pattern_offset) {
  for (uint64_t i = 0; i < bytes; ++i) data[i] = PatternAt(pattern_offset + i, seed);
}

uint64_t FirstWrong(const std::byte* data, uint64_t bytes, uint64_t seed, uint64_t pattern_offset) {
  uint64_t i = 0;
  while (i < bytes && data[i] == PatternAt(pattern_offset + i, seed)) ++i;
  return i;
}

}  // namespace onecopy::testing
