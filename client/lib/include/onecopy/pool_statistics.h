// What a pool has, and what it has done.
#pragma once

#include "onecopy/language.h"  // first

#include <cstdint>

namespace onecopy {

struct PoolStatistics {
  uint64_t slabs = 0;
  uint64_t bytes_reserved = 0;  // in slabs
  uint64_t bytes_managed = 0;   // of these, managed memory, because the GPU was full
  uint64_t bytes_in_use = 0;    // in blocks, rounded up to the alignment
  uint64_t bytes_asked = 0;     // the same, without rounding
  uint64_t peak_bytes = 0;      // the largest bytes_in_use so far
  uint64_t largest_free = 0;    // the largest allocation that needs no new slab
  uint64_t blocks_in_use = 0;

  uint64_t allocations = 0;  // since the pool was made
  uint64_t deallocations = 0;
  uint64_t failures = 0;      // of either
  uint64_t from_recent = 0;   // allocations of memory that the same stream had freed last
  uint64_t from_others = 0;   // … that another stream had freed, in order after it
  uint64_t synchronized = 0;  // how often the host waited for all streams, or for a released one
  uint64_t grown = 0;         // slabs added
  uint64_t trimmed = 0;       // slabs returned
};

}  // namespace onecopy
