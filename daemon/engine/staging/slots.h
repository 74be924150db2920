// The pinned slab through which payload is staged, and which transfer has which part of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/figures.h"
#include "daemon/engine/base/context.h"
#include "daemon/pipeline/slot_share.h"

namespace onecopy::engine {

// What slots are for. Each purpose has half of the slab. A slot for sending may wait for the
// reader's node; one for receiving waits for nothing outside this node, since it is taken when
// there is something to be put into it, and not kept without. So nodes that send to each other
// never wait in a circle.
enum class Purpose { kSend, kReceive };

// Engine thread. The slab is made when it is first needed: of host memory, locked where the system
// allows it, near the devices where they are all near to one NUMA node. Moves inside this node that
// are better off on another NUMA node have a slab there, of the same length: see Near.
//
// A transfer begins with few slots, gets more as long as they come back to it and there are some,
// and gives some back, down to none, where others have less than their part. A transfer without
// slots comes first: if there are more transfers than slots, payers take turns chunk by chunk, and
// of each payer's transfers the one that asked first is next. A slot is cleared before another
// owner gets it.
//
// Memory of a client's process goes through the slab that its client shares with this daemon
// instead (Region::slab), which has slots of its own, likewise: see For.
class Slots : public std::enable_shared_from_this<Slots> {
 public:
  explicit Slots(Context& context);
  // Of a slab that is there.
  Slots(Context& context, RegionRef slab);

  // Those through which such a region is copied: these, or its client's. Of the common slots alone.
  std::shared_ptr<Slots> For(const Region& region);

  // Those on that NUMA node; these where that is theirs, or -1. Of the common slots alone.
  std::shared_ptr<Slots> Near(int32_t numa_node);
  // Those in memory of that GPU, through which one owner's bytes go on to another GPU. No other
  // owner's bytes are ever there, and the slots stay while they are in use. Only for receiving.
  // Behind them their slab has kSpareBytes that are in no slot, to try a way with. Of the common
  // slots alone.
  static constexpr uint64_t kSpareBytes = uint64_t{4} << 20;
  std::shared_ptr<Slots> OnGpu(const Place& gpu, const std::string& owner);
  // Where their slab was seen to lie, once Slab has answered: "NUMA node 1", empty where the kernel
  // does not say.
  const std::string& seen_on() const { return seen_on_; }

  uint64_t slot_bytes() const { return slot_bytes_; }
  uint32_t slots(Purpose purpose) const { return HalfOf(purpose).size; }

  // RESOURCE_EXHAUSTED when there can be no slab.
  void Slab(Reply<RegionRef> reply);

  struct Params {
    Purpose purpose = Purpose::kSend;
    std::string owner;     // whose bytes they are; no other owner may see them
    Owner payer = {};      // those of one take turns with another's
    uint64_t payload = 0;  // no more slots than it fills
    uint32_t most = 0;     // nor more than are of use at a time
    Executor* executor = nullptr;
  };
  // After Slab has answered. `begun` runs, later, when there are the first slots, or none are
  // needed; a caller that passes it has something to put into them. The share is closed when the
  // last reference goes.
  pipeline::SlotShareRef Open(Params params, Task begun = nullptr);

  // Whether this share has nothing and wants some; and how many come before it.
  bool Waits(const pipeline::SlotShare& share) const;
  uint32_t Ahead(const pipeline::SlotShare& share) const;
  // Since when it has not given back what was called back; nothing where it owes none.
  std::optional<os::Clock::time_point> OwesSince(const pipeline::SlotShare& share) const;
  // Grows with each slot that is given to a transfer: as long as it grows, waiting makes sense.
  uint64_t given(Purpose purpose) const { return HalfOf(purpose).given; }

  // How that half of these slots is used; the other slabs are not in it.
  SlotFigures FiguresOf(Purpose purpose) const;

  void Clear();  // at the engine's end

 private:
  struct Slot {
    std::string owner;   // whose bytes are in it
    uint64_t bytes = 0;  // of them, from its beginning on
  };
  // The round in which it is served, with one of each payer's, and a number of its own. Rounds
  // begin with 1.
  using Turn = std::pair<uint64_t, uint64_t>;
  struct Half {
    uint32_t first = 0;
    uint32_t size = 0;
    uint32_t free_count = 0;
    std::map<std::string, std::set<uint32_t>> free;  // by whose bytes are in them; "": nobody's
    std::set<uint64_t> holders;                      // shares that have some
    std::map<Turn, uint64_t> without;                // that have none and want some
    uint64_t served = 0;                             // the round of whoever was given some last
    std::map<Owner, uint64_t> rounds;                // in which payers asked last, after that one
    std::set<uint64_t> hungry;                       // that have some and want more
    uint64_t given = 0;
    DurationHistogram waits;  // of those that had none, for the first of what they were given
  };
  struct Entry {
    std::shared_ptr<pipeline::SlotShare> share;
    Half* half = nullptr;
    std::string owner;
    uint32_t most = 0;
    uint32_t held = 0;   // has been granted, and has not come back
    uint32_t limit = 0;  // what is above it has been called back
    os::Clock::time_point owes_since;
    Owner payer;
    Turn turn;                     // in Half::without; {}: not there
    os::Clock::time_point queued;  // likewise: since when
    bool closed = false;
    Task begun;
  };

  // Where a slab is to be.
  struct Home {
    int32_t numa_node = -1;
    Place memory = {"host", {}};
  };
  Slots(Context& context, Home home);

  void Divide(uint32_t send, uint32_t receive);
  Half& HalfOf(Purpose purpose) { return purpose == Purpose::kSend ? send_ : receive_; }
  const Half& HalfOf(Purpose purpose) const { return purpose == Purpose::kSend ? send_ : receive_; }
  // That all network devices of links are near to, or without any all GPUs; -1 where there is none.
  int32_t CommonNumaNode() const;
  bool IsOnGpu() const { return !home_.memory.device.empty(); }
  int32_t NumaNode() const { return home_.numa_node < 0 ? CommonNumaNode() : home_.numa_node; }
  void MakeSlab();

  void Want(uint64_t id);
  void Queue(uint64_t id, Entry& entry);
  void GiveBack(uint64_t id, const std::vector<pipeline::UsedSlot>& slots, bool closed);
  void Serve(Half& half);
  void Recall(Half& half);
  // How many slots each transfer would have if all had as many.
  static uint32_t Part(const Half& half);
  // Of those that have some and want more, the one that has the fewest.
  uint64_t Hungriest(const Half& half) const;
  void Grant(uint64_t id, uint32_t count);
  uint32_t TakeFree(Half& half, const std::string& owner);
  void Hand(uint64_t id, std::vector<uint32_t> slots);
  void ClearThenHand(uint64_t id, uint32_t slot);

  Context& context_;
  const uint64_t slot_bytes_;
  const Home home_;
  RegionRef slab_;
  std::string seen_on_;
  std::map<int32_t, std::shared_ptr<Slots>> of_nodes_;                           // by NUMA nodes
  std::map<std::pair<std::string, std::string>, std::weak_ptr<Slots>> of_gpus_;  // and owners
  std::map<const Region*, std::weak_ptr<Slots>> of_clients_;                     // by their slabs
  bool making_ = false;
  std::vector<Reply<RegionRef>> for_slab_;
  std::vector<Slot> slots_;
  Half send_;
  Half receive_;
  std::map<uint64_t, Entry> shares_;
  uint64_t next_id_ = 1;
  uint64_t next_turn_ = 1;
};

}  // namespace onecopy::engine
