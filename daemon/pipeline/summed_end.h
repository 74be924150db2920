// The checksums of what small copies move, at one end of them.
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

  // Of bytes inside the region, from 1 to digest::kLeafBytes of them. ABORTED (MEMORY_FAULT) where
  // some of them are gone. What has no memory gets none.
  Result<SmallSum> Sum(uint64_t offset, uint64_t bytes) const;

 private:
  RegionRef region_;
  uint64_t base_;
};

}  // namespace onecopy::pipeline
