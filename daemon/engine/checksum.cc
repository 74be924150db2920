#include "daemon/engine/checksum.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <future>

#include "transport/core/reasons.h"

namespace onecopy::engine {
namespace {

constexpr uint64_t kPiece = uint64_t{8} << 20;  // between two looks at the stop flag
constexpr uint32_t kSlots = 8;                  // copies under way while earlier ones are read

class Hasher {
 public:
  Hasher() : state_(XXH3_createState(), &XXH3_freeState) { XXH3_128bits_reset(state_.get()); }

  void Add(const std::byte* data, uint64_t bytes) {
    XXH3_128bits_update(state_.get(), data, bytes);
  }
  std::string Hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    std::array<char, 33> text{};
    std::snprintf(text.data(), text.size(), "%016llx%016llx",
                  static_cast<unsigned long long>(hash.high64),
                  static_cast<unsigned long long>(hash.low64));
    return text.data();
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

Status Stopped() { return {Code::kCancelled, reasons::kCancelled, "the checksum was stopped"}; }

Result<std::string> SumInPlace(const Region& region, const ByteRange& range,
                               const std::atomic<bool>& stop) {
  Hasher hasher;
  for (uint64_t at = 0; at < range.bytes; at += kPiece) {
    if (stop) return Stopped();
    hasher.Add(region.address() + range.offset + at, std::min(kPiece, range.bytes - at));
  }
  return hasher.Hex();
}

// Copies run ahead of the reading by as many slots as there are.
Result<std::string> SumThroughSlots(CopyRoute& route, const pipeline::SlotLease& lease,
                                    const ByteRange& range, const std::atomic<bool>& stop) {
  struct Copying {
    std::future<Status> done;
    uint64_t at = 0;  // in the slab
    uint64_t bytes = 0;
  };
  Hasher hasher;
  std::deque<Copying> copying;
  Status failure;
  uint64_t started = 0;
  uint32_t slot = 0;
  while (started < range.bytes || !copying.empty()) {
    while (failure.ok() && !stop && started < range.bytes && copying.size() < lease.slots) {
      auto done = std::make_shared<std::promise<Status>>();
      Copying next{done->get_future(), lease.first_byte + slot * lease.slot_bytes,
                   std::min(lease.slot_bytes, range.bytes - started)};
      route.Copy(range.offset + started, next.at, next.bytes,
                 [done](Status status, const StepList&) { done->set_value(std::move(status)); });
      started += next.bytes;
      slot = (slot + 1) % lease.slots;
      copying.push_back(std::move(next));
    }
    if (copying.empty()) break;
    if (Status copied = copying.front().done.get(); !copied.ok() && failure.ok()) failure = copied;
    if (failure.ok()) hasher.Add(lease.slab->address() + copying.front().at, copying.front().bytes);
    copying.pop_front();
  }
  if (!failure.ok()) return failure;
  if (stop) return Stopped();
  return hasher.Hex();
}

}  // namespace

void Checksums::Sum(RegionRef region, const ByteRange& range, StopFlag stop,
                    Reply<std::string> reply) {
  const Place& place = region->place();
  // A thread of its own: a long reading must not hold up allocations.
  const std::string worker = "sum " + (place.device.empty() ? place.kind : place.device);
  if (region->cpu_addressable()) {
    return context_.workers.Run<std::string>(
        worker, [region, range, stop] { return SumInPlace(*region, range, *stop); },
        std::move(reply));
  }
  slots_.Acquire(
      Purpose::kReceive, kSlots,
      [this, region, range, stop, worker, reply = std::move(reply)](auto lease) mutable {
        if (!lease.ok()) return reply(lease.status());
        Memory* memory = context_.CopierFor(region->place(), lease->slab->place());
        context_.workers.Run<std::string>(
            worker,
            [memory, region, range, stop, lease = std::move(*lease)]() -> Result<std::string> {
              ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<CopyRoute> route,
                                       memory->Prepare(region, lease.slab));
              return SumThroughSlots(*route, lease, range, *stop);
            },
            std::move(reply));
      });
}

}  // namespace onecopy::engine
