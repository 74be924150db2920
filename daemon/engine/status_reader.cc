#include "daemon/engine/status_reader.h"

#include <utility>

#include "daemon/engine/probing/ways.h"

namespace onecopy::engine {
namespace {

// Of those that run: what is beyond is told as one number.
constexpr size_t kMaxRunningSeen = 4096;

}  // namespace

struct StatusReader::Reading {
  std::vector<std::string> nodes;
  size_t next = 0;
  StatusFigures status;
  UniqueFunction<void(Figures)> reply;
};

void StatusReader::Read(UniqueFunction<void(Figures)> reply) {
  auto reading = std::make_shared<Reading>();
  reading->reply = std::move(reply);
  reading->nodes.push_back(needs_.context.node());
  for (const PeerFigures& peer : needs_.peers.figures().peers) {
    if (reading->nodes.size() == kMaxNodesShown) break;
    if (peer.connected) reading->nodes.push_back(peer.name);
  }
  Continue(std::move(reading));
}

void StatusReader::Continue(std::shared_ptr<Reading> reading) {
  if (reading->next < reading->nodes.size()) {
    reading->status.ways.push_back(WaysFrom(reading->nodes[reading->next++], needs_.planning));
    needs_.context.loop.Post(
        [this, reading = std::move(reading)]() mutable { Continue(std::move(reading)); });
    return;
  }
  AddRunning(reading->status);
  AddDevices(reading->status);
  Figures figures = needs_.figures.Read();
  figures.status = std::move(reading->status);
  reading->reply(std::move(figures));
}

void StatusReader::AddRunning(StatusFigures& status) const {
  needs_.transfers.ForEachRunning(kMaxRunningSeen, [&](const TransferRecord& record) {
    needs_.tally.AddRunning(record, status.running);
  });
  const size_t running = needs_.transfers.running();
  if (running <= kMaxRunningSeen) return;
  status.running[{"other", "other", "(more)", Direction::kElsewhere}].transfers +=
      running - kMaxRunningSeen;
}

void StatusReader::AddDevices(StatusFigures& status) const {
  const auto add = [&](DeviceFigures device) {
    if (status.devices.size() < kMaxDevicesShown) status.devices.push_back(std::move(device));
  };
  const NodeCapability& node = needs_.catalog.capabilities();
  for (const MemoryCapability& memory : node.memories) {
    if (memory.kind != "cuda") continue;
    const std::string model = memory.name.empty() ? std::string() : " " + memory.name;
    add({.kind = "gpu", .name = MemoryName(memory) + model, .viability = memory.viability});
  }
  for (const LinkCapability& link : node.links) {
    if (!link.viability.viable || link.nics.empty()) {
      add({.kind = "link", .name = link.name, .link = link.name, .viability = link.viability});
    }
    for (const NicCapability& nic : link.nics) {
      add({.kind = "nic",
           .name = nic.name,
           .link = link.name,
           .bytes_per_second = nic.bytes_per_second,
           .emulated = nic.emulated,
           .viability = nic.viability});
    }
  }
  for (const StoreCapability& store : node.stores) {
    add({.kind = "store", .name = store.name, .viability = store.viability});
  }
  for (const TopologyDevice& device : node.topology.devices) {
    if (device.kind == DeviceKind::kNvme) add({.kind = "drive", .name = device.name});
  }
}

}  // namespace onecopy::engine
