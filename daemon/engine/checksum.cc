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

Result<std::string> SumPieces(const Region& region, const ByteRange& range, const Layout& layout,
                              const std::atomic<bool>& stop) {
  Hasher hasher;
  const std::byte* const base = region.address() + range.offset;
  uint64_t before_look = 0;
  for (const StridedRange& piece : layout.pieces()) {
    for (uint64_t i = 0; i < piece.count; ++i) {
      const std::byte* const element = base + piece.offset + i * piece.stride;
      for (uint64_t at = 0; at < piece.bytes; at += kPiece) {
        const uint64_t bytes = std::min(kPiece, piece.bytes - at);
        hasher.Add(element + at, bytes);
        before_look += bytes;
        if (before_look < kPiece) continue;
        if (stop) return Stopped();
        before_look = 0;
      }
    }
  }
  return hasher.Hex();
}

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
                                    const ByteRange& range, const Layout* layout,
                                    const std::atomic<bool>& stop) {
  const uint64_t payload = layout == nullptr ? range.bytes : layout->bytes();
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
  while (started < payload || !copying.empty()) {
    while (failure.ok() && !stop && started < payload && copying.size() < lease.slots) {
      auto done = std::make_shared<std::promise<Status>>();
      Copying next{done->get_future(), lease.first_byte + slot * lease.slot_bytes,
                   std::min(lease.slot_bytes, payload - started)};
      const auto copied = [done](Status status, const StepList&) {
        done->set_value(std::move(status));
      };
      if (layout == nullptr) {
        route.Copy(range.offset + started, next.at, next.bytes, copied);
      } else {
        route.CopyMany(CopiesOf({layout, range.offset}, {nullptr, next.at}, started, next.bytes),
                       copied);
      }
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

void Checksums::Sum(RegionRef region, const ByteRange& range, LayoutRef layout, StopFlag stop,
                    Reply<std::string> reply) {
  const Place& place = region->place();
  // A thread of its own: a long reading must not hold up allocations.
  const std::string worker = "sum " + (place.device.empty() ? place.kind : place.device);
  if (region->cpu_addressable()) {
    return context_.workers.Run<std::string>(
        worker,
        [region, range, layout, stop] {
          return layout == nullptr ? SumInPlace(*region, range, *stop)
                                   : SumPieces(*region, range, *layout, *stop);
        },
        std::move(reply));
  }
  slots_.Acquire(
      Purpose::kReceive, kSlots,
      [this, region, range, layout, stop, worker, reply = std::move(reply)](auto lease) mutable {
        if (!lease.ok()) return reply(lease.status());
        Memory* memory = context_.CopierFor(region->place(), lease->slab->place());
        context_.workers.Run<std::string>(
            worker,
            [memory, region, range, layout, stop,
             lease = std::move(*lease)]() -> Result<std::string> {
              ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<CopyRoute> route,
                                       memory->Prepare(region, lease.slab));
              return SumThroughSlots(*route, lease, range, layout.get(), *stop);
            },
            std::move(reply));
      });
}

}  // namespace onecopy::engine
