// Reads what the status page shows: the figures of metrics and, beside them, by which path each
// node's memory reaches this node's, what runs, and the devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/api/figures.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/figures_reader.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/planning.h"
#include "daemon/engine/transfers/tally.h"
#include "daemon/engine/transfers/transfers.h"
#include "transport/core/base/unique_function.h"

namespace onecopy::engine {

// Engine thread. Plans the ways from one node in each turn of the loop, so that transfers do not
// wait for the ways from 64; the rest takes no longer than the figures of metrics, whatever runs.
class StatusReader {
 public:
  struct Needs {
    Context& context;
    const Catalog& catalog;
    const Peers& peers;
    const Planning& planning;
    const Transfers& transfers;
    const Tally& tally;
    FiguresReader& figures;
  };

  explicit StatusReader(const Needs& needs) : needs_(needs) {}

  // Replies later, once. A reading at a time is the caller's business.
  void Read(UniqueFunction<void(Figures)> reply);

 private:
  struct Reading;

  void Continue(std::shared_ptr<Reading> reading);
  void AddRunning(StatusFigures& status) const;
  void AddDevices(StatusFigures& status) const;

  const Needs needs_;
};

}  // namespace onecopy::engine
