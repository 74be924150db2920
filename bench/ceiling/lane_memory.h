// The host memory that sockets move a payload between.
#pragma once

#include <cstdint>
#include <span>

#include "onecopy/result.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {

struct LaneShape {
  uint64_t bytes = 1;  // of the payload, of which each lane moves a stripe
  unsigned lanes = 1;
  // Of the one buffer that each end of a lane uses again and again, from its begin; 0: the ends are
  // memory of the payload's size.
  uint64_t reused_bytes = 0;
};

// Source and destination, resident. One thread at a time fills and verifies.
class LaneMemory {
 public:
  LaneMemory() = default;
  static Result<LaneMemory> Create(const LaneShape& shape);

  const LaneShape& shape() const { return shape_; }
  uint64_t StripeBytes(unsigned lane) const;
  // What a lane's stripe goes through at either end, from the begin again wherever it ends.
  std::span<std::byte> Source(unsigned lane) const;
  std::span<std::byte> Destination(unsigned lane) const;

  void Fill(uint64_t seed);
  // Whether what is at the destination came there since this payload was filled in.
  bool Verify(uint64_t seed) const;

 private:
  std::span<std::byte> BufferIn(const os::Mapping& memory, unsigned lane) const;

  LaneShape shape_;
  os::Mapping source_;
  os::Mapping destination_;
};

}  // namespace onecopy::bench
