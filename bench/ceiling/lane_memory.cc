#include "bench/ceiling/lane_memory.h"

#include <algorithm>
#include <cstring>

#include "bench/ceiling/together.h"
#include "bench/measure/payload.h"

namespace onecopy::bench {

Result<LaneMemory> LaneMemory::Create(const LaneShape& shape) {
  LaneMemory memory;
  memory.shape_ = shape;
  const uint64_t bytes = shape.reused_bytes > 0 ? shape.lanes * shape.reused_bytes : shape.bytes;
  ONECOPY_ASSIGN_OR_RETURN(memory.source_, os::MapAnonymous(bytes));
  ONECOPY_ASSIGN_OR_RETURN(memory.destination_, os::MapAnonymous(bytes));
  std::memset(memory.destination_.data(), 0, bytes);  // resident from here on
  return memory;
}

uint64_t LaneMemory::StripeBytes(unsigned lane) const {
  return StripeOf(shape_.bytes, shape_.lanes, lane).bytes();
}

std::span<std::byte> LaneMemory::BufferIn(const os::Mapping& memory, unsigned lane) const {
  const Stripe stripe = StripeOf(shape_.bytes, shape_.lanes, lane);
  if (shape_.reused_bytes == 0) return {memory.data() + stripe.begin, stripe.bytes()};
  return {memory.data() + lane * shape_.reused_bytes,
          std::min(stripe.bytes(), shape_.reused_bytes)};
}

std::span<std::byte> LaneMemory::Source(unsigned lane) const { return BufferIn(source_, lane); }

std::span<std::byte> LaneMemory::Destination(unsigned lane) const {
  return BufferIn(destination_, lane);
}

void LaneMemory::Fill(uint64_t seed) { FillPayload(source_.data(), source_.bytes(), seed); }

bool LaneMemory::Verify(uint64_t seed) const {
  if (shape_.reused_bytes == 0) {
    return !FindWrong(destination_.data(), destination_.bytes(), seed);
  }
  // Each sample's payload differs from the one before, so what is right now arrived in it.
  for (unsigned lane = 0; lane < shape_.lanes; ++lane) {
    const std::span<std::byte> source = Source(lane);
    if (std::memcmp(source.data(), Destination(lane).data(), source.size()) != 0) return false;
  }
  return true;
}

}  // namespace onecopy::bench
