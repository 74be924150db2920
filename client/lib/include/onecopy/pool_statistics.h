// What a pool has and what it has done.
#pragma once

#include "onecopy/language.h"  // first

#include <cstdint>

namespace onecopy {

struct PoolStatistics {
  uint64_t slabs = 0;
  uint64_t bytes_reserved = 0;  // of the slabs
  uint64_t bytes_managed = 0;   // of them, managed memory, as the GPU had no room
  uint64_t bytes_in_use = 0;    // of blocks, each a multiple of the alignment
  uint64_t bytes_asked = 0;     // of them, what callers asked for
  uint64_t peak_bytes = 0;      // the most that was in use at once
  uint64_t largest_free = 0;    // the largest block that an allocation could have without growth
  uint64_t blocks_in_use = 0;

  uint64_t allocations = 0;  // since the pool was made
  uint64_t deallocations = 0;
  uint64_t failures = 0;      // of both
  uint64_t from_recent = 0;   // allocations by what the same stream had freed last
  uint64_t from_others = 0;   // … by what another stream had freed, in order after it
  uint64_t synchronized = 0;  // waits of the host for all streams, or for one that is released
  uint64_t grown = 0;         // slabs that were made
  uint64_t trimmed = 0;       // slabs that were given back
};

}  // namespace onecopy
