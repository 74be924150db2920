// Checksums of ranges, as they are in memory now.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/base/context.h"

namespace onecopy::engine {

class Slots;

inline constexpr const char* kChecksumAlgorithm = "xxh3-128";

// In hexadecimal: of the whole, or, where blocks were asked for, of each of these alone.
struct Sums {
  std::string whole = {};
  std::vector<std::string> blocks = {};
};

// Of a few bytes, in hexadecimal.
std::string SumOf(const std::string& text);

// Engine thread; the reading is done on a worker's. Memory that the processor cannot read goes
// through slots.
class Checksums {
 public:
  using StopFlag = std::shared_ptr<std::atomic<bool>>;

  Checksums(Context& context, Slots& slots) : context_(context), slots_(slots) {}

  // The checksum of a range that lies inside the region, in hexadecimal; with a layout, of the
  // payload that this gathers out of the range. `stop`, once it is set, ends the reading early,
  // with CANCELLED. Sums of one payer take turns with another's, a few MiB each.
  void Sum(RegionRef region, const ByteRange& range, LayoutRef layout,
           std::shared_ptr<const std::atomic<bool>> stop, const Owner& payer,
           Reply<std::string> reply);
  // Likewise; with `block_bytes` not 0, of each block of so many bytes, the last one shorter.
  void SumBlocks(RegionRef region, const ByteRange& range, LayoutRef layout, uint64_t block_bytes,
                 std::shared_ptr<const std::atomic<bool>> stop, const Owner& payer,
                 Reply<Sums> reply);

 private:
  Context& context_;
  Slots& slots_;
  uint64_t sums_ = 0;  // that went through slots
};

}  // namespace onecopy::engine
