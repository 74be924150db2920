// Checksums of ranges, as they are in memory now.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "daemon/engine/base/context.h"
#include "daemon/engine/staging/summing.h"

namespace onecopy::engine {

class Slots;

// Engine thread; the reading is done on a worker's. Memory that the processor cannot read is summed
// by its device (Memory::SumLeaves) or goes through slots.
class Checksums {
 public:
  using StopFlag = std::shared_ptr<std::atomic<bool>>;
  using StopRef = std::shared_ptr<const std::atomic<bool>>;

  Checksums(Context& context, Slots& slots) : context_(context), slots_(slots) {}

  // Of a range that lies inside the region; with a layout, of the payload that this gathers out of
  // the range. `stop`, once it is set, ends the reading early, with CANCELLED. Sums of one payer
  // take turns with another's, a few MiB each, or a GiB where a device sums its own memory.
  void SumTree(RegionRef region, const ByteRange& range, LayoutRef layout, StopRef stop,
               const Owner& payer, Reply<digest::TreeSum> reply);
  // Likewise the checksum of the whole, and its tree; with `block_bytes` not 0, instead of these,
  // of each block of so many bytes, the last one shorter.
  void SumBlocks(RegionRef region, const ByteRange& range, LayoutRef layout, uint64_t block_bytes,
                 StopRef stop, const Owner& payer, Reply<Sums> reply);

 private:
  void Sum(RegionRef region, const ByteRange& range, LayoutRef layout, const WantedSums& wanted,
           StopRef stop, const Owner& payer, Reply<Sums> reply);

  Context& context_;
  Slots& slots_;
  uint64_t sums_ = 0;  // that went through slots
};

}  // namespace onecopy::engine
