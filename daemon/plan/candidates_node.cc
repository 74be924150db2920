#include <algorithm>

#include "daemon/plan/candidates.h"
#include "daemon/plan/path_steps.h"
#include "onecopy/reasons.h"

namespace onecopy::plan {
namespace {

Assessment Offer(const Rung& rung, const Ends& ends, Staging staging, bool needless) {
  return {.candidates = {{.path = PathInNode(rung, ends, staging), .needless = needless}},
          .refusal = {}};
}

// Links that can do so too, by a device that both daemons have for the GPUs of their host. They
// come after borrowing, which is as fast and takes clients' memory as well.
std::vector<std::string> LinksWithinHost(const Ends& ends) {
  std::vector<std::string> names;
  for (const LinkCapability& here : ends.source_node.links) {
    const LinkCapability* there = ends.destination_node.FindLink(here.name);
    if (there == nullptr || !here.viability.viable || !there->viability.viable) continue;
    if (here.version_must_match && here.version != there->version) continue;
    const bool both = std::any_of(here.nics.begin(), here.nics.end(), [&](const auto& nic) {
      return IsWithinHost(nic) &&
             std::any_of(there->nics.begin(), there->nics.end(), [&](const auto& other) {
               return IsWithinHost(other) && other.name == nic.name && other.fabric == nic.fabric;
             });
    });
    if (both) names.push_back(here.name);
  }
  return names;
}

Assessment NoPeerAccess(const Rung& rung, const std::string& source,
                        const std::string& destination) {
  return Refused(rung, reasons::kNoPeerAccess,
                 source + " cannot reach the memory of " + destination +
                     ": the driver offers no peer access between the two",
                 "use GPUs joined by NVLink, or GPUs on one PCIe root with ACS off and a driver "
                 "that allows P2P (nvidia-smi topo -p2p r)");
}

// Two daemons of one host use each other's GPU memory in place; the destination's copies, and so
// must see the source's GPU.
Assessment AssessBetweenNodes(const Rung& rung, const Ends& ends) {
  const std::string nodes = ends.source_node.node + " and " + ends.destination_node.node;
  if (!ends.OnOneHost()) return Refused(rung, reasons::kOtherNode, nodes + " are two nodes");
  const bool gpus = !IsHost(ends.source) && ends.source.kind == ends.destination.kind &&
                    !ends.source.device.empty();
  if (rung.carrier != Carrier::kPeer || rung.shape != Shape::kDirect || !gpus) {
    return Refused(
        rung, reasons::kOtherNode,
        nodes + " are two daemons of one host, and separate daemons can share only GPU memory",
        "keep both buffers on one daemon");
  }
  const MemoryCapability* seen =
      ends.destination_node.FindMemory(ends.source.kind, ends.source.device);
  if (seen == nullptr || !seen->viability.viable) {
    return Refused(rung, reasons::kDeviceNotFound,
                   ends.destination_node.node + " does not see " + StepName(ends.source) +
                       ", and would have to copy from its memory",
                   "make the same GPUs visible to both daemons (CUDA_VISIBLE_DEVICES)");
  }
  const std::vector<std::string>& peers = seen->direct_peers;
  const bool reaches =
      seen->device == ends.destination.device ||
      std::find(peers.begin(), peers.end(), ends.destination.device) != peers.end();
  if (!reaches) {
    return NoPeerAccess(rung, Describe(ends.source, ends.source_node), ends.destination.device);
  }
  Assessment offers = Offer(rung, ends, {}, false);
  for (const std::string& link : LinksWithinHost(ends)) {
    offers.candidates.push_back(offers.candidates.front());
    offers.candidates.back().path.link = link;
  }
  return offers;
}

// Between two processes each one's slab takes a copy. That both are one, which has one slab, only
// shows when it is done.
Assessment AssessProcess(const Rung& rung, const Ends& ends) {
  if (rung.shape == Shape::kBounce) {
    const bool both = IsProcess(ends.source) && IsProcess(ends.destination);
    return Offer(rung, ends, {.source = true, .destination = both}, false);
  }
  const MemoryCapability& process = IsProcess(ends.source) ? ends.source : ends.destination;
  return Refused(rung, reasons::kNotApplicable,
                 Describe(process, ends.source_node) +
                     " can be read only by its own process, which copies it through a slab",
                 ProcessRemedy(process.kind));
}

}  // namespace

Assessment AssessInNode(const Rung& rung, const Ends& ends) {
  const std::string source = Describe(ends.source, ends.source_node);
  const std::string destination = Describe(ends.destination, ends.destination_node);
  if (!ends.InOneNode()) return AssessBetweenNodes(rung, ends);
  if (IsProcess(ends.source) || IsProcess(ends.destination)) return AssessProcess(rung, ends);
  const bool two_devices = !IsHost(ends.source) && !IsHost(ends.destination) &&
                           StepName(ends.source) != StepName(ends.destination);
  const bool two_gpus = two_devices && IsGpu(ends.source) && IsGpu(ends.destination);
  if (two_devices && !two_gpus && rung.shape != Shape::kBounce) {
    return Refused(rung, reasons::kNotApplicable,
                   "nothing copies between " + source + " and " + destination + " in one pass",
                   "use peer-bounce, which goes through host memory");
  }
  if (rung.carrier == Carrier::kLocal) {
    if (!two_gpus) return Offer(rung, ends, {}, false);
    return Refused(
        rung, reasons::kNotApplicable,
        source + " and " + destination + " are two GPUs: peer-direct moves it in one copy");
  }
  if (rung.shape == Shape::kBounce) return Offer(rung, ends, {.source = true}, !two_devices);
  if (!two_gpus) {
    return Refused(rung, reasons::kNotApplicable,
                   IsHost(ends.source) ? source + " is not GPU memory: local moves it in one copy"
                   : IsHost(ends.destination)
                       ? destination + " is not GPU memory: local moves it in one copy"
                       : "both ends are on " + source + ": local moves it in one copy");
  }
  const std::vector<std::string>& peers = ends.source.direct_peers;
  if (std::find(peers.begin(), peers.end(), ends.destination.device) == peers.end()) {
    return NoPeerAccess(rung, source, ends.destination.device);
  }
  return Offer(rung, ends, {}, false);
}

}  // namespace onecopy::plan
