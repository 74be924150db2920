#include "daemon/engine/slots.h"

#include <algorithm>
#include <utility>

#include "transport/core/reasons.h"
#include "transport/os/mapping.h"
#include "transport/os/numa.h"

namespace onecopy::engine {

Slots::Slots(Context& context) : context_(context) {
  const uint32_t half = std::max(context.options.slots / 2, 1U);
  send_.taken.resize(half);
  receive_.first = half;
  receive_.taken.resize(half);
}

void Slots::Acquire(Purpose purpose, uint32_t wanted, Reply<pipeline::SlotLease> reply) {
  Half& half = purpose == Purpose::kSend ? send_ : receive_;
  half.waiting.push_back({std::max(wanted, 1U), std::move(reply)});
  if (slab_ != nullptr) return Serve(half);
  if (!std::exchange(making_, true)) MakeSlab();
}

// Network devices first: every byte that is staged for a peer crosses one, not every one a GPU.
int32_t Slots::NumaNode() const {
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
  Memory* host = context_.FindMemory("host");
  const uint64_t bytes = slot_bytes() * (send_.taken.size() + receive_.taken.size());
  context_.workers.Run<std::unique_ptr<Region>>(
      "host",
      [host, bytes, node = NumaNode()]() -> Result<std::unique_ptr<Region>> {
        ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Region> slab, host->Allocate({}, bytes));
        // Where the kernel does not place pages, they lie where they happen to.
        if (node >= 0) (void)os::PreferNumaNode(slab->address(), bytes, node);
        // Without the right to lock it, it is ordinary memory until a device pins it, and is called
        // so.
        if (os::LockInMemory(slab->address(), bytes)) slab->SetStepName("pinned");
        return slab;
      },
      [this](Result<std::unique_ptr<Region>> slab) {
        making_ = false;
        if (slab.ok()) slab_ = context_.workers.Share("host", std::move(*slab));
        for (Half* half : {&receive_, &send_}) {
          if (slab_ != nullptr) {
            Serve(*half);
            continue;
          }
          for (Request& request : std::exchange(half->waiting, {})) {
            request.reply(slab.status().WithContext("the staging slab"));
          }
        }
      });
}

Slots::Run Slots::FindRun(const Half& half, uint32_t wanted) {
  Run best;
  Run run;
  for (uint32_t i = 0; i < half.taken.size() && best.count < wanted; ++i) {
    if (half.taken[i]) {
      run = {};
      continue;
    }
    if (run.count == 0) run.first = i;
    ++run.count;
    if (run.count > best.count) best = run;
  }
  best.count = std::min(best.count, wanted);
  return best;
}

void Slots::Serve(Half& half) {
  while (!half.waiting.empty()) {
    // Several in the queue share what there is, instead of one taking it all.
    const auto fair = static_cast<uint32_t>(half.taken.size() / half.waiting.size());
    const Run run = FindRun(half, std::max(std::min(half.waiting.front().wanted, fair), 1U));
    if (run.count == 0) return;
    std::fill_n(half.taken.begin() + run.first, run.count, true);
    pipeline::SlotLease lease;
    lease.slab = slab_;
    lease.slot_bytes = slot_bytes();
    lease.first_byte = slot_bytes() * (half.first + run.first);
    lease.slots = run.count;
    lease.returner = std::shared_ptr<void>(nullptr, [this, &half, run](void*) {
      context_.loop.Post([this, &half, run] { GiveBack(half, run); });
    });
    Reply<pipeline::SlotLease> reply = std::move(half.waiting.front().reply);
    half.waiting.pop_front();
    reply(std::move(lease));
  }
}

void Slots::GiveBack(Half& half, Run run) {
  std::fill_n(half.taken.begin() + run.first, run.count, false);
  Serve(half);
}

void Slots::Clear() {
  send_.waiting.clear();
  receive_.waiting.clear();
  slab_.reset();
}

}  // namespace onecopy::engine
