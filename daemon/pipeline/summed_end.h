// One end of small copies whose checksums are compared.
#pragma once

#include <cstdint>
#include <utility>

#include "transport/core/contracts/region.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::pipeline {

// Any thread. Never waits.
class SummedEnd {
 public:
  // Whether the processor reads this memory itself.
  static bool Works(const Region& region) { return region.cpu_addressable(); }

  // `region` works. `base`: where in it the offsets begin.
  SummedEnd(RegionRef region, uint64_t base) : region_(std::move(region)), base_(base) {}

  // The checksum of 1 to digest::kLeafBytes bytes inside the region. ABORTED (MEMORY_FAULT) if some
  // of them are gone. Pages that were never written stay without memory.
  Result<SmallSum> Sum(uint64_t offset, uint64_t bytes) const;

 private:
  RegionRef region_;
  uint64_t base_;
};

}  // namespace onecopy::pipeline
