#include "daemon/engine/peering/catalog.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/plan/ladder.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

// Of a link that carries one copy, by a daemon without its backend: why it cannot have it.
LinkCapability AbsentRdma(const std::string& name, const std::string& node,
                          const std::vector<std::string>& devices) {
  LinkCapability link;
  link.name = name;
  link.rdma = true;
  if (devices.empty()) {
    link.viability =
        Viability::No(reasons::kNoRdmaDevice,
                      "node " + node + " has no RDMA device: /sys/class/infiniband is empty",
                      "install a NIC that supports InfiniBand or RoCE v2, with its driver");
    return link;
  }
  std::string names;
  for (const std::string& device : devices) names += (names.empty() ? "" : ", ") + device;
  link.viability = Viability::No(reasons::kLinkMissing,
                                 "node " + node + " has RDMA devices (" + names +
                                     "), but its onecopyd was built without the " + name + " link",
                                 "run an onecopyd that has it");
  return link;
}

// In place of what is there about the same memory.
void Put(std::vector<NicMemory>& memories, const NicMemory& memory) {
  const auto same = std::find_if(memories.begin(), memories.end(), [&](const NicMemory& other) {
    return other.kind == memory.kind && other.device == memory.device;
  });
  if (same == memories.end()) {
    memories.push_back(memory);
  } else {
    *same = memory;
  }
}

}  // namespace

void Catalog::RefreshAfter(os::Clock::duration age) {
  if (os::Clock::now() - asked_ >= age) Refresh();
}

void Catalog::ProveNicMemories(const std::string& link,
                               const std::vector<std::pair<std::string, NicMemory>>& found) {
  if (found.empty()) return;
  for (const auto& [nic, memory] : found) Put(proven_[{link, nic}], memory);
  Refresh();
}

void Catalog::ForgetNicMemories(const std::string& link) {
  std::erase_if(proven_, [&](const auto& entry) { return entry.first.first == link; });
  Refresh();
}

void Catalog::AddProven(LinkCapability& link) const {
  for (NicCapability& nic : link.nics) {
    const auto found = proven_.find({link.name, nic.name});
    if (found == proven_.end()) continue;
    for (const NicMemory& memory : found->second) Put(nic.memories, memory);
  }
}

void Catalog::Refresh() {
  asked_ = os::Clock::now();
  NodeCapability now;
  now.node = context_.node();
  now.host = os::HostIdentity();
  now.topology = context_.options.topology;
  for (const Memory* memory : context_.memories) {
    std::vector<MemoryCapability> devices = memory->Describe();
    std::move(devices.begin(), devices.end(), std::back_inserter(now.memories));
  }
  for (const Link* link : context_.links) {
    now.links.push_back(link->Describe());
    AddProven(now.links.back());
  }
  for (const Store* store : context_.stores) now.stores.push_back(store->Describe());
  const std::vector<std::string> rdma_devices = os::RdmaDevices();
  for (const std::string_view name : plan::kRdmaLinks) {
    if (now.FindLink(std::string(name)) == nullptr) {
      now.links.push_back(AbsentRdma(std::string(name), now.node, rdma_devices));
    }
  }
  if (generation_ > 0 && now == capabilities_) return;
  capabilities_ = std::move(now);
  ++generation_;
}

}  // namespace onecopy::engine
