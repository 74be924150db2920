#include <algorithm>

#include "daemon/plan/candidates.h"
#include "daemon/plan/nic_pairs.h"
#include "daemon/plan/path_steps.h"
#include "onecopy/reasons.h"

namespace onecopy::plan {
namespace {

const std::string kTcp = "tcp";
// UCX 1.22 moves memory of GPUs over sockets at 0.4 to 3 GB/s.
constexpr uint64_t kOtherSocketsBytesPerSecond = 1'000'000'000;

// Why the node cannot use the link; viable where it can.
Viability LinkOf(const NodeCapability& node) {
  const LinkCapability* link = node.FindLink(kTcp);
  if (link == nullptr) {
    return Viability::No(reasons::kLinkMissing, node.node + " has no link tcp",
                         "run an onecopyd with the tcp link on " + node.node);
  }
  Viability why = link->viability;
  if (!why.viable) why.detail = "tcp of " + node.node + ": " + why.detail;
  return why;
}

bool Says(const NodeCapability& node, const char* name, const char* value) {
  const LinkCapability* link = node.FindLink(kTcp);
  if (link == nullptr) return false;
  const auto said = link->attributes.find(name);
  return said != link->attributes.end() && said->second == value;
}

// Lanes are encrypted where one end wants it so; see TcpLink::Describe for what nodes say of it.
bool Encrypted(const Ends& ends) {
  return Says(ends.source_node, "encrypted", "yes") ||
         Says(ends.destination_node, "encrypted", "yes");
}

Sealing SealingOf(const Ends& ends) {
  if (!Encrypted(ends)) return {};
  return {.source = Says(ends.source_node, "encrypts", "by daemon"),
          .destination = Says(ends.destination_node, "encrypts", "by daemon")};
}

// Sockets share the wire with RDMA, so where their own devices do not tell their speed, an RDMA
// device's is the limit. Without it, a guess for TCP would beat a slow RDMA device of known speed.
uint64_t WireLimit(const Ends& ends) {
  if (ends.OnOneHost()) return 0;
  uint64_t rdma = 0;
  for (const LinkCapability& link : ends.source_node.links) {
    const LinkCapability* there = ends.destination_node.FindLink(link.name);
    if (there == nullptr) continue;
    const uint64_t limit = FastestWire(link, *there);
    if (link.name == kTcp && limit != 0) return limit;
    rdma = std::max(rdma, limit);
  }
  return rdma;
}

// Reaches memory of this kind by sockets of its own, and by buffers of its own.
bool SocketsReach(const LinkCapability& link, const MemoryCapability& memory) {
  return std::any_of(link.nics.begin(), link.nics.end(), [&](const NicCapability& nic) {
    return IsSockets(nic) && nic.viability.viable &&
           std::any_of(nic.memories.begin(), nic.memories.end(), [&](const NicMemory& one) {
             return one.kind == memory.kind && one.viability.viable &&
                    (one.device.empty() || one.device == memory.device);
           });
  });
}

// Links beside tcp that carry any memory over sockets, far slower: taken when nothing else is
// there, when asked for, or when measured to be faster after all.
void AddOtherSockets(const Rung& rung, const Ends& ends, std::vector<Candidate>* candidates) {
  // They send plain text, which must not leave the machine where lanes are encrypted.
  if (Encrypted(ends) && !ends.OnOneHost()) return;
  for (const LinkCapability& from : ends.source_node.links) {
    const LinkCapability* to = ends.destination_node.FindLink(from.name);
    if (from.name == kTcp || to == nullptr) continue;
    if (!from.viability.viable || !to->viability.viable) continue;
    if (from.version_must_match && from.version != to->version) continue;
    if (!SocketsReach(from, ends.source) || !SocketsReach(*to, ends.destination)) continue;
    candidates->push_back({.path = PathThroughLinkBuffers(rung, ends, from.name),
                           .needless = IsHost(ends.source) && IsHost(ends.destination),
                           .wire = {from.name,
                                    {ends.source.kind, ends.source.device},
                                    {ends.destination.kind, ends.destination.device}},
                           .wire_bytes_per_second = kOtherSocketsBytesPerSecond});
  }
}

// What to do about memory that sockets cannot reach.
const char* HiddenRemedy(const Ends& ends) {
  for (const MemoryCapability* memory : {&ends.source, &ends.destination}) {
    if (IsProcess(*memory)) return ProcessRemedy(memory->kind);
  }
  return "use host memory, or a path that stages GPU memory";
}

}  // namespace

bool IsSockets(const NicCapability& nic) { return nic.name == "tcp"; }

Assessment AssessTcp(const Rung& rung, const Ends& ends) {
  std::vector<Candidate> others;
  if (rung.shape == Shape::kStaged) AddOtherSockets(rung, ends, &others);
  Viability links = Both(LinkOf(ends.source_node), LinkOf(ends.destination_node));
  if (!links.viable) {
    if (!others.empty()) return {.candidates = std::move(others), .refusal = {}};
    return Refused(rung, std::move(links));
  }
  const bool source_reachable = ends.source.cpu_addressable;
  const bool destination_reachable = ends.destination.cpu_addressable;
  const std::string source = Describe(ends.source, ends.source_node);
  const std::string destination = Describe(ends.destination, ends.destination_node);
  const std::string hidden = source_reachable        ? destination
                             : destination_reachable ? source
                                                     : source + " and " + destination;
  Staging staging;
  switch (rung.shape) {
    case Shape::kDirect:
      if (!source_reachable || !destination_reachable) {
        return Refused(rung, reasons::kNotApplicable,
                       "sockets cannot reach the memory of " + hidden, HiddenRemedy(ends));
      }
      break;
    case Shape::kBounce:
      if (!source_reachable && !destination_reachable) {
        return Refused(rung, reasons::kNotApplicable,
                       "sockets cannot reach the memory of " + hidden +
                           ", and a bounce path stages only one end");
      }
      // With both within reach it is taken when named; a GPU's end gains more than host memory.
      staging.source = !source_reachable || (destination_reachable &&
                                             (!IsHost(ends.source) || IsHost(ends.destination)));
      staging.destination = !staging.source;
      break;
    case Shape::kStaged:
      staging = {.source = true, .destination = true};
      break;
  }
  Assessment offers = {
      .candidates = {{.path = PathOverLink(rung, ends, kTcp, staging, false, SealingOf(ends)),
                      .needless = staging.Needless(ends),
                      // The processor reads and writes whatever it reaches alike.
                      .wire = {kTcp, {"host", {}}, {"host", {}}},
                      .wire_bytes_per_second = WireLimit(ends)}},
      .refusal = {}};
  for (Candidate& other : others) offers.candidates.push_back(std::move(other));
  return offers;
}

}  // namespace onecopy::plan
