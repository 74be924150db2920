// Transfers of several buffers whose bytes come to this node.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/probes.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/transfers/bundle_parts.h"
#include "daemon/engine/transfers/bundle_run.h"
#include "daemon/engine/transfers/destinations.h"
#include "daemon/engine/transfers/series.h"
#include "daemon/engine/transfers/transfers.h"

namespace onecopy::engine {

// Engine thread. A request of several pairs of buffers is one transfer, whose bytes its parts move,
// one for each pair: transfers like any other, but in no list. All of them are checked and planned
// before the first begins, a few at a time, so that the thread has time for others between them.
class Bundles {
 public:
  struct Needs {
    Context& context;
    Peers& peers;
    Probes& probes;
    Buffers& buffers;
    Arrivals& arrivals;
    Transfers& transfers;
    Series& series;
    const DestinationPlans& plans;
    Destinations& destinations;
  };

  explicit Bundles(const Needs& needs) : needs_(needs) {}

  // See PeerApi::Start, of a request with parts.
  void Start(const std::string& caller, const StartRequest& request, Reply<TransferInfo> reply);

  // Of a transfer of any kind that has reached its last state.
  void OnFinal(const TransferRecord& record);

 private:
  struct Pending;

  // Both go on where they were, until all parts have been through.
  void Explore(const std::shared_ptr<Pending>& pending);
  void Plan(const std::shared_ptr<Pending>& pending);
  Result<TransferInfo> Begin(Pending& pending);
  // Where the parts' bytes lie, as far as that is here.
  Result<PartEnd> EndHere(const Endpoint& end, LayoutRef layout) const;
  Result<std::vector<PartEnds>> EndsHere(const std::vector<StartRequest>& parts,
                                         const std::vector<TransferInfo>& planned) const;
  // The buffers of this node that any part uses.
  Result<std::vector<BufferId>> BuffersHere(const std::vector<TransferInfo>& planned) const;

  // What is told at its end, of each buffer that is written: that which the request names first
  // comes last, with the message. There is room for what must not be left out.
  Result<std::vector<BundleRun::Arriving>> ArrivingAt(
      const StartRequest& request, const std::vector<TransferInfo>& planned) const;

  const Needs needs_;
  std::map<TransferId, std::shared_ptr<BundleRun>> runs_;
};

}  // namespace onecopy::engine
