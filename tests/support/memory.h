// Host memory for tests: regions with known bytes.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/core/region.h"

namespace onecopy::testing {

// Plain memory as a region; `filled` gives each byte a value that depends on its place and on
// `seed`.
inline RegionRef HostRegion(uint64_t bytes) {
  auto storage = std::make_shared<std::vector<std::byte>>(bytes);
  std::byte* data = storage->data();
  return std::make_shared<Region>(Place{"host", {}}, data, bytes, true, [storage] {});
}

// Memory that begins at a page, as clients' does; null where there is none. At `where`, if given,
// and then null where something is there already.
inline RegionRef Pages(uint64_t bytes, void* where = nullptr) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (where != nullptr ? MAP_FIXED_NOREPLACE : 0);
  void* const at = ::mmap(where, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  return std::make_shared<Region>(Place{"host", {}}, static_cast<std::byte*>(at), bytes, true,
                                  [at, bytes] { ::munmap(at, bytes); });
}

inline std::byte PatternAt(uint64_t offset, uint64_t seed) {
  uint64_t mixed = (offset + 1) * 0x9e3779b97f4a7c15ULL + seed * 0xbf58476d1ce4e5b9ULL;
  mixed ^= mixed >> 29;
  return static_cast<std::byte>(mixed * 0x94d049bb133111ebULL >> 56);
}

inline void Fill(const Span& span, uint64_t seed) {
  for (uint64_t i = 0; i < span.bytes; ++i) span.address()[i] = PatternAt(i, seed);
}

// Index of the first byte that is not the pattern's; span.bytes when all are.
inline uint64_t FirstWrong(const Span& span, uint64_t seed, uint64_t pattern_offset = 0) {
  uint64_t i = 0;
  while (i < span.bytes && span.address()[i] == PatternAt(pattern_offset + i, seed)) ++i;
  return i;
}

}  // namespace onecopy::testing
