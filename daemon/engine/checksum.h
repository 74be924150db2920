// Checksums of ranges, as they are in memory now.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "daemon/engine/context.h"
#include "daemon/engine/slots.h"

namespace onecopy::engine {

inline constexpr const char* kChecksumAlgorithm = "xxh3-128";

// Engine thread; the reading is done on a worker's. Memory that the processor cannot read goes
// through slots.
class Checksums {
 public:
  // Set to end the reading early, with CANCELLED.
  using StopFlag = std::shared_ptr<std::atomic<bool>>;

  Checksums(Context& context, Slots& slots) : context_(context), slots_(slots) {}

  // The checksum of a range that lies inside the region, in hexadecimal; with a layout, of the
  // payload that this gathers out of the range.
  void Sum(RegionRef region, const ByteRange& range, LayoutRef layout, StopFlag stop,
           Reply<std::string> reply);

 private:
  Context& context_;
  Slots& slots_;
};

}  // namespace onecopy::engine
