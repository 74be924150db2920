#include "tests/rdma/rdma_pair.h"

#include <stdexcept>

namespace onecopy::testing {
namespace {

std::string List(const std::vector<std::string>& names) {
  std::string text = "[";
  for (const std::string& name : names) text += (text.size() > 1 ? ", \"" : "\"") + name + "\"";
  return text + "]";
}

NodeOptions OptionsFor(const RdmaPairOptions& options, bool west) {
  NodeOptions node;
  node.config = "insecure = true\nuid_domain = \"guest\"\n" + options.config +
                (west ? options.west_config : std::string()) +
                "\n[peers.\"*\"]\nuid_domain = \"guest\"\n[rdma]\ndevices = " +
                List(west ? options.west_devices : options.east_devices) + "\n";
  node.listen = west ? "10.77.0.2:0" : "10.77.0.1:0";
  node.environment = options.environment;
  node.in_child = options.in_child;
  return node;
}

NodeOptions WithPeer(NodeOptions options, const Node& peer) {
  options.peers = {peer.AsPeer()};
  return options;
}

}  // namespace

RdmaPair::RdmaPair(const RdmaPairOptions& options)
    : west("west", OptionsFor(options, true)),
      east("east", WithPeer(OptionsFor(options, false), west)) {
  east.WaitForPeer("west");
  west.WaitForPeer("east");
}

uint64_t PacketsReceived() {
  uint64_t packets = 0;
  for (const GuestDevice& device : kGuestDevices) {
    packets += RdmaCounters(device.name).at("rcvd_pkts");
  }
  return packets;
}

size_t CountResources(const std::string& kind) {
  Process rdma({.program = "/usr/bin/rdma", .arguments = {"-j", "resource", "show"}});
  const std::string answer = rdma.ReadAll();
  const Json listed = Json::parse(answer, nullptr, false);
  if (rdma.Wait() != 0 || !listed.is_array()) {
    throw std::runtime_error("rdma resource show said: " + answer);
  }
  size_t count = 0;
  for (const Json& device : listed) count += device.value(kind, size_t{0});
  return count;
}

}  // namespace onecopy::testing
