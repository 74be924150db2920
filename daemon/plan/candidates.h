// Inside the planner: what each rung of the ladder offers between two ends, before any policy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/plan/estimates.h"
#include "daemon/plan/file_end.h"
#include "daemon/plan/ladder.h"
#include "daemon/plan/path.h"
#include "daemon/plan/wire.h"
#include "onecopy/capability.h"

namespace onecopy::plan {

// Both ends as their nodes describe them; every reference outlives the plan's making.
struct Ends {
  const NodeCapability& source_node;
  const NodeCapability& destination_node;
  const MemoryCapability& source;
  const MemoryCapability& destination;
  const Estimates& estimates;

  bool InOneNode() const { return source_node.node == destination_node.node; }
  // Two daemons of one machine count too.
  bool OnOneHost() const {
    return !source_node.host.empty() && source_node.host == destination_node.host;
  }
};

// One way to go that would work.
struct Candidate {
  Path path;  // without its estimate
  // Stages host memory, which gains nothing: taken only when nothing else is acceptable.
  bool needless = false;
  Wire wire = {};                      // that it crosses; none inside a node
  uint64_t wire_bytes_per_second = 0;  // what the network devices can carry; 0: unknown
  // What is believed of it without the transfers that have gone this way, and, where these decide
  // the path's estimate, what the next may lose by trying it again.
  Estimate prior = {};
  double spare_seconds = 0;
};

// What became of one rung: the ways to go that it offers, or why there is none.
struct Assessment {
  std::vector<Candidate> candidates;
  Refusal refusal;  // counts where there is no candidate
};

Assessment Refused(const Rung& rung, std::string_view reason, std::string detail,
                   std::string remedy = {});
Assessment Refused(const Rung& rung, Viability why);

// Viable where both are; else the first end's reason and what both say, so that who reads it mends
// both at once.
Viability Both(Viability source, const Viability& destination);

// Whether a node moves files: the reason of its last store where none does.
Viability AnyStore(const NodeCapability& node);

// storage-*: between that file and memory of its node.
Assessment AssessStorage(const Rung& rung, const Ends& ends, const FileEnd& file);
// storage-direct+peer-direct: only where another GPU is nearer to the file's drive. An assessment
// without a candidate and without a refusal where that is not so, as on nearly all machines.
Assessment AssessThroughNearGpu(const Rung& rung, const Ends& ends, const FileEnd& file);
// Whether the file's drive and that GPU are on both sides of the link between NUMA nodes.
bool IsFar(const NodeCapability& node, const DrivePlace& drive, const MemoryCapability& gpu);
// What a drive is believed to carry across that link at most, when it reads or writes a GPU there.
inline constexpr uint64_t kAcrossNodesBytesPerSecond = 3'000'000'000;
// Whether drives reach memory of GPUs there, and this file's drive does.
Viability DirectStore(const NodeCapability& node, const FileEnd& file);
// The same, with memory of another node: by a link, from or into slots of the file's node.
Assessment AssessFileOverLink(const Rung& rung, const Ends& ends, const FileEnd& file,
                              const std::string& link);

// local, peer-*: inside one node, and peer-direct between two daemons of one host.
Assessment AssessInNode(const Rung& rung, const Ends& ends);
// tcp-*: between two nodes.
Assessment AssessTcp(const Rung& rung, const Ends& ends);
// rdma-*: between two nodes, over the link of that name, or over any where it is empty.
Assessment AssessRdma(const Rung& rung, const Ends& ends, const std::string& link);

// Whether this device never leaves its machine: what goes over it is no RDMA.
bool IsWithinHost(const NicCapability& nic);

// Whether this stands for sockets, under a link's own buffers.
bool IsSockets(const NicCapability& nic);

// Whether this is a link that the rdma paths may use.
bool IsRdmaLink(const LinkCapability& link);

}  // namespace onecopy::plan
