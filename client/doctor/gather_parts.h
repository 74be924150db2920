// Inside the doctor: gatherers, by what they look at. `root` as in GatherOptions.
#pragma once

#include <string>
#include <vector>

#include "client/doctor/facts.h"
#include "onecopy/node.h"
#include "onecopy/transfer.h"

namespace onecopy::doctor {

void GatherTopology(const std::string& root, Facts& facts);
void GatherNics(const std::string& root, Facts& facts);
void GatherGpus(const std::string& root, Facts& facts);  // from files only; after the topology
void GatherKernel(const std::string& root, Facts& facts);
void GatherStorage(const std::string& root, Facts& facts);
void GatherMemlock(const std::string& root, Facts& facts);
void GatherHugePages(const std::string& root, Facts& facts);
void GatherPcie(const std::string& root, Facts& facts);  // IOMMU, ACS; after the topology

void AskCuda(Facts& facts);   // after GatherGpus
void AskNvml(Facts& facts);   // likewise
void AskVerbs(Facts& facts);  // after GatherNics
void AskUcx(Facts& facts);
void AskCuFile(Facts& facts);

// The probes that a daemon tells of a node, itself or a peer, as far as they still count and went
// over RDMA: UCX inside one machine does not. What they were made with is looked up in the
// descriptions of both nodes; which of them carry lanes, in recent transfers.
std::vector<Probe> ProbesFrom(const NodeInfo& node, const NodeCapability& own,
                              const std::vector<TransferInfo>& transfers, WallTime now);

// The modules in the folder `ucx` beside a libucp.
void ReadUcxModules(const std::string& library, Ucx& ucx);

}  // namespace onecopy::doctor
