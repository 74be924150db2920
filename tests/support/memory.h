// Host memory for tests: regions with known bytes.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/support/pattern.h"
#include "transport/core/contracts/region.h"

namespace onecopy::testing {

// Plain memory as a region.
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

inline void Fill(const Span& span, uint64_t seed) { Fill(span.address(), span.bytes, seed); }

// Index of the first byte that is not the pattern's; span.bytes when all are.
inline uint64_t FirstWrong(const Span& span, uint64_t seed, uint64_t pattern_offset = 0) {
  return FirstWrong(span.address(), span.bytes, seed, pattern_offset);
}

}  // namespace onecopy::testing
