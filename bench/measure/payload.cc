#include "bench/measure/payload.h"

#include <algorithm>
#include <cstring>

namespace onecopy::bench {
namespace {

// The finaliser of a 64-bit hash: every bit of the place and the seed changes half of the bits.
uint64_t Mix(uint64_t word) {
  word ^= word >> 32;
  word *= 0xD6E8FEB86659FD93;
  word ^= word >> 32;
  word *= 0xD6E8FEB86659FD93;
  return word ^ (word >> 32);
}

uint64_t WordAt(uint64_t offset, uint64_t seed) {
  return Mix(offset + seed * 0x9E3779B97F4A7C15 + 1);
}

}  // namespace

void FillPayload(std::byte* to, uint64_t bytes, uint64_t seed) {
  for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = WordAt(at, seed);
    std::memcpy(to + at, &word, std::min<uint64_t>(sizeof word, bytes - at));
  }
}

std::optional<uint64_t> FindWrong(const std::byte* data, uint64_t bytes, uint64_t seed) {
  for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = WordAt(at, seed);
    if (std::memcmp(data + at, &word, std::min<uint64_t>(sizeof word, bytes - at)) != 0) return at;
  }
  return std::nullopt;
}

}  // namespace onecopy::bench
