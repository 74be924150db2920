#include "daemon/engine/staging/slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/machine/numa.h"

namespace onecopy::engine {
namespace {

// With which a transfer begins, where there are as many.
constexpr uint32_t kFirst = 4;
constexpr const char* kCleaner = "slots";  // worker
// Of a client's slab: sixteen each way, and as large as that allows.
constexpr uint64_t kClientSlots = 32;
constexpr uint64_t kSlotUnit = 4096;

uint64_t SlotBytesOf(const Context& context, const Region& slab) {
  const uint64_t bytes = std::min(slab.bytes() / kClientSlots, context.options.slot_bytes);
  return std::max(bytes / kSlotUnit * kSlotUnit, kSlotUnit);
}

// By a page of each sixteenth: a node that has run out gives the rest to others.
std::string SeenOn(std::byte* slab, uint64_t bytes) {
  constexpr uint64_t kPages = 16;
  std::set<int32_t> nodes;
  for (uint64_t i = 0; i < kPages; ++i) {
    nodes.insert(os::NumaNodeOfPage(slab + bytes / kPages * i / kSlotUnit * kSlotUnit));
  }
  if (nodes.contains(-1)) return {};
  std::string text = nodes.size() == 1 ? "NUMA node " : "NUMA nodes ";
  for (const int32_t node : nodes) {
    text += (node == *nodes.begin() ? "" : ", ") + std::to_string(node);
  }
  return text;
}

}  // namespace

Slots::Slots(Context& context) : context_(context), slot_bytes_(context.options.slot_bytes) {
  const uint32_t half = std::max(context.options.slots / 2, 1U);
  Divide(half, half);
}

Slots::Slots(Context& context, RegionRef slab)
    : context_(context), slot_bytes_(SlotBytesOf(context, *slab)), slab_(std::move(slab)) {
  const auto half = static_cast<uint32_t>(slab_->bytes() / slot_bytes_ / 2);
  Divide(half, half);
}

Slots::Slots(Context& context, Home home)
    : context_(context), slot_bytes_(context.options.slot_bytes), home_(std::move(home)) {
  const uint32_t half = std::max(context.options.slots / 2, 1U);
  Divide(IsOnGpu() ? 0 : half, half);
}

std::shared_ptr<Slots> Slots::Near(int32_t numa_node) {
  if (numa_node < 0 || numa_node == NumaNode()) return {std::shared_ptr<void>(), this};
  std::shared_ptr<Slots>& slots = of_nodes_[numa_node];
  if (slots == nullptr) slots.reset(new Slots(context_, Home{.numa_node = numa_node}));
  return slots;
}

std::shared_ptr<Slots> Slots::OnGpu(const Place& gpu, const std::string& owner) {
  std::erase_if(of_gpus_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Slots>& known = of_gpus_[{gpu.device, owner}];
  std::shared_ptr<Slots> slots = known.lock();
  if (slots == nullptr) {
    slots.reset(new Slots(context_, Home{.memory = gpu}));
    known = slots;
  }
  return slots;
}

std::shared_ptr<Slots> Slots::For(const Region& region) {
  if (region.slab() == nullptr) return {std::shared_ptr<void>(), this};
  std::erase_if(of_clients_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Slots>& known = of_clients_[region.slab().get()];
  std::shared_ptr<Slots> slots = known.lock();
  if (slots == nullptr) known = slots = std::make_shared<Slots>(context_, region.slab());
  return slots;
}

void Slots::Divide(uint32_t send, uint32_t receive) {
  send_.size = send;
  receive_.first = send;
  receive_.size = receive;
  slots_.resize(size_t{send} + receive);
  for (Half* one : {&send_, &receive_}) {
    one->free_count = one->size;
    for (uint32_t i = 0; i < one->size; ++i) one->free[""].insert(one->first + i);
  }
}

void Slots::Slab(Reply<RegionRef> reply) {
  if (slab_ != nullptr) return reply(slab_);
  for_slab_.push_back(std::move(reply));
  if (!std::exchange(making_, true)) MakeSlab();
}

// Network devices first: every byte that is staged for a peer crosses one, not every one a GPU.
int32_t Slots::CommonNumaNode() const {
  const Topology& topology = context_.options.topology;
  std::vector<std::string> nics;
  for (const Link* link : context_.links) {
    for (const NicCapability& nic : link->Describe().nics) {
      const bool here = nic.viability.viable && topology.Find(nic.name).has_value();
      if (here) nics.push_back(nic.name);
    }
  }
  if (!nics.empty()) return topology.CommonNumaNode(nics);
  std::vector<std::string> gpus;
  for (const TopologyDevice& device : topology.devices) {
    if (device.kind == DeviceKind::kGpu) gpus.push_back(device.address);
  }
  return topology.CommonNumaNode(gpus);
}

void Slots::MakeSlab() {
  Memory* memory = context_.FindMemory(home_.memory.kind);
  const std::string worker = IsOnGpu() ? home_.memory.device : "host";
  const uint64_t bytes = slot_bytes() * slots_.size() + (IsOnGpu() ? kSpareBytes : 0);
  struct Made {
    std::unique_ptr<Region> slab;
    std::string seen_on;
  };
  context_.workers.Run<Made>(
      worker,
      [memory, bytes, gpu = home_.memory.device, node = NumaNode()]() -> Result<Made> {
        ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Region> slab,
                                 memory->AllocateForStaging(gpu, bytes, node));
        if (!gpu.empty()) return Made{std::move(slab), {}};
        std::string seen_on = SeenOn(slab->address(), bytes);
        return Made{std::move(slab), std::move(seen_on)};
      },
      [this, keep = weak_from_this().lock(), worker](Result<Made> made) {
        making_ = false;
        if (made.ok()) {
          slab_ = context_.workers.Share(worker, std::move(made->slab));
          seen_on_ = std::move(made->seen_on);
          if (!IsOnGpu()) {
            for (Store* store : context_.stores) store->HoldsLong(slab_);
          }
        }
        for (Reply<RegionRef>& reply : std::exchange(for_slab_, {})) {
          if (slab_ != nullptr) {
            reply(slab_);
          } else {
            reply(made.status().WithContext("the staging slab"));
          }
        }
      });
}

pipeline::SlotShareRef Slots::Open(Params params, Task begun) {
  const uint64_t id = next_id_++;
  pipeline::SlotShare::Pool pool;
  // A client's slots stay while they are in use; the common ones stay anyway.
  const std::shared_ptr<Slots> keep = weak_from_this().lock();
  pool.want = [this, keep, id] { context_.loop.Post([this, keep, id] { Want(id); }); };
  pool.give_back = [this, keep, id](std::vector<pipeline::UsedSlot> slots, bool closed) {
    context_.loop.Post(
        [this, keep, id, slots = std::move(slots), closed] { GiveBack(id, slots, closed); });
  };
  const auto share = std::make_shared<pipeline::SlotShare>(
      id, *params.executor, slab_, slot_bytes(), static_cast<bool>(begun), std::move(pool));
  const uint64_t filled = (params.payload + slot_bytes() - 1) / slot_bytes();
  Entry& entry = shares_[id];
  entry.share = share;
  entry.half = &HalfOf(params.purpose);
  entry.owner = std::move(params.owner);
  entry.payer = PayerOf(params.payer);
  entry.most = static_cast<uint32_t>(std::min<uint64_t>(params.most, filled));
  entry.begun = std::move(begun);
  if (entry.most > 0) {
    // Not from here: the caller has not got the share yet.
    context_.loop.Post([this, keep, id] { Want(id); });
  } else if (entry.begun) {
    context_.loop.Post(std::exchange(entry.begun, nullptr));
  }
  const std::shared_ptr<void> closer(nullptr, [share](void*) { share->Close(); });
  return {closer, share.get()};
}

bool Slots::Waits(const pipeline::SlotShare& share) const {
  const auto found = shares_.find(share.id());
  return found != shares_.end() && found->second.turn != Turn();
}

uint32_t Slots::Ahead(const pipeline::SlotShare& share) const {
  const auto found = shares_.find(share.id());
  if (found == shares_.end() || found->second.turn == Turn()) return 0;
  const auto& without = found->second.half->without;
  return static_cast<uint32_t>(std::distance(without.begin(), without.find(found->second.turn)));
}

std::optional<os::Clock::time_point> Slots::OwesSince(const pipeline::SlotShare& share) const {
  const auto found = shares_.find(share.id());
  if (found == shares_.end() || found->second.held <= found->second.limit) {
    return std::nullopt;
  }
  return found->second.owes_since;
}

void Slots::Want(uint64_t id) {
  const auto found = shares_.find(id);
  if (found == shares_.end() || found->second.closed) return;
  Entry& entry = found->second;
  if (entry.held >= entry.most) return;
  if (entry.held > 0) {
    entry.half->hungry.insert(id);
  } else if (entry.turn == Turn()) {
    Queue(id, entry);
  }
  Serve(*entry.half);
}

// Each payer has one place in a round, so that a payer that asks for the first time waits for no
// more than one of each other's, however many these have.
void Slots::Queue(uint64_t id, Entry& entry) {
  Half& half = *entry.half;
  std::erase_if(half.rounds, [&](const auto& one) { return one.second <= half.served; });
  uint64_t& round = half.rounds[entry.payer];
  round = std::max(round, half.served) + 1;
  entry.turn = {round, next_turn_++};
  entry.queued = os::Clock::now();
  half.without[entry.turn] = id;
}

void Slots::GiveBack(uint64_t id, const std::vector<pipeline::UsedSlot>& slots, bool closed) {
  const auto found = shares_.find(id);
  if (found == shares_.end()) return;
  Entry& entry = found->second;
  Half& half = *entry.half;
  for (const pipeline::UsedSlot& used : slots) {
    Slot& slot = slots_[used.slot];
    if (used.bytes > 0) {
      slot.owner = entry.owner;
      slot.bytes = std::max(slot.bytes, used.bytes);
    }
    half.free[slot.owner].insert(used.slot);
    ++half.free_count;
    --entry.held;
    entry.owes_since = os::Clock::now();
  }
  entry.closed = entry.closed || closed;
  const bool wants = half.hungry.contains(id);
  if (entry.held == 0) {
    half.holders.erase(id);
    half.hungry.erase(id);
  }
  if (entry.closed) {
    half.hungry.erase(id);
    if (entry.turn != Turn()) half.without.erase(std::exchange(entry.turn, {}));
    if (entry.held == 0) shares_.erase(found);
  } else if (entry.held == 0 && wants) {
    Queue(id, entry);
  }
  Serve(half);
}

uint32_t Slots::Part(const Half& half) {
  const size_t active = half.holders.size() + half.without.size();
  return static_cast<uint32_t>(half.size / std::max<size_t>(active, 1));
}

uint64_t Slots::Hungriest(const Half& half) const {
  return *std::min_element(half.hungry.begin(), half.hungry.end(), [&](uint64_t a, uint64_t b) {
    return shares_.at(a).held < shares_.at(b).held;
  });
}

void Slots::Serve(Half& half) {
  while (half.free_count > 0 && (!half.without.empty() || !half.hungry.empty())) {
    const bool none = !half.without.empty();
    const uint64_t id = none ? half.without.begin()->second : Hungriest(half);
    const Entry& entry = shares_.at(id);
    const size_t others = none ? half.without.size() : half.hungry.size();
    const auto each = static_cast<uint32_t>(half.free_count / others);
    const uint32_t more = none ? std::min(kFirst, std::max(Part(half), 1U)) : entry.held;
    Grant(id, std::min({more, std::max(each, 1U), entry.most - entry.held, half.free_count}));
  }
  Recall(half);
}

// From all who have more than their part, as some of what they have may be stuck.
void Slots::Recall(Half& half) {
  const uint32_t part = Part(half);
  uint64_t missing = 0;
  for (const auto& [turn, id] : half.without) {
    missing += std::min(std::max(part, 1U), shares_.at(id).most);
  }
  for (const uint64_t id : half.hungry) {
    const Entry& entry = shares_.at(id);
    const uint32_t due = std::min(part, entry.most);
    missing += due > entry.held ? due - entry.held : 0;
  }
  if (missing == 0) return;
  for (const uint64_t id : half.holders) {
    Entry& entry = shares_.at(id);
    const uint32_t left = std::min(entry.held, entry.limit);
    if (left <= part) continue;
    if (entry.held <= entry.limit) entry.owes_since = os::Clock::now();
    entry.limit = left - static_cast<uint32_t>(std::min<uint64_t>(left - part, missing));
    entry.share->SetLimit(entry.limit);
  }
}

void Slots::Grant(uint64_t id, uint32_t count) {
  Entry& entry = shares_.at(id);
  Half& half = *entry.half;
  if (entry.turn != Turn()) {
    half.served = entry.turn.first;
    half.without.erase(std::exchange(entry.turn, {}));
    half.waits.Note(os::Clock::now() - entry.queued);
  }
  half.hungry.erase(id);
  half.holders.insert(id);
  entry.held += count;
  entry.limit = entry.held;
  half.given += count;
  std::vector<uint32_t> ready;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t slot = TakeFree(half, entry.owner);
    const bool others = slots_[slot].bytes > 0 && slots_[slot].owner != entry.owner;
    if (others) {
      ClearThenHand(id, slot);
    } else {
      ready.push_back(slot);
    }
  }
  if (!ready.empty()) Hand(id, std::move(ready));
}

// Its own before clean ones before others', since those must be cleared.
uint32_t Slots::TakeFree(Half& half, const std::string& owner) {
  auto from = half.free.find(owner);
  if (from == half.free.end()) from = half.free.begin();  // "" comes first
  const uint32_t slot = *from->second.begin();
  from->second.erase(from->second.begin());
  if (from->second.empty()) half.free.erase(from);
  --half.free_count;
  return slot;
}

void Slots::Hand(uint64_t id, std::vector<uint32_t> slots) {
  Entry& entry = shares_.at(id);
  entry.share->Give(std::move(slots), entry.limit);
  if (entry.begun) context_.loop.Post(std::exchange(entry.begun, nullptr));
}

void Slots::ClearThenHand(uint64_t id, uint32_t slot) {
  std::byte* const at = slab_->address() + slot * slot_bytes();
  const std::shared_ptr<Slots> keep = weak_from_this().lock();
  Task clear = [this, keep, id, slot, at, slab = slab_, bytes = slots_[slot].bytes] {
    std::memset(at, 0, bytes);
    context_.loop.Post([this, keep, id, slot] {
      slots_[slot] = {};
      // A share lives until it has given back all that it was granted.
      Hand(id, {slot});
    });
  };
  // Without a thread for it here: later is not better.
  if (!context_.workers.Post(kCleaner, clear).ok()) clear();
}

SlotFigures Slots::FiguresOf(Purpose purpose) const {
  const Half& half = HalfOf(purpose);
  return {half.size, half.free_count, static_cast<uint32_t>(half.without.size()), half.given,
          half.waits};
}

void Slots::Clear() {
  for (const auto& [slab, weak] : std::exchange(of_clients_, {})) {
    if (const std::shared_ptr<Slots> slots = weak.lock()) slots->Clear();
  }
  for (const auto& [gpu, weak] : std::exchange(of_gpus_, {})) {
    if (const std::shared_ptr<Slots> slots = weak.lock()) slots->Clear();
  }
  for (const auto& [node, slots] : std::exchange(of_nodes_, {})) slots->Clear();
  shares_.clear();
  for_slab_.clear();
  slab_.reset();
}

}  // namespace onecopy::engine
