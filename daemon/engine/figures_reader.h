// Reads the engine's numbers for the metrics: what it has done, and what it holds now.
#pragma once

#include "daemon/engine/api/figures.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/probes.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/rings/rings.h"
#include "daemon/engine/staging/slots.h"
#include "daemon/engine/transfers/tally.h"
#include "daemon/engine/transfers/transfers.h"

namespace onecopy::engine {

// Engine thread. Takes no longer with more buffers or transfers, only with more peers, routes of
// rings and kinds of things: all of these are bounded.
class FiguresReader {
 public:
  struct Needs {
    const Context& context;
    const Tally& tally;
    const Transfers& transfers;
    Rings& rings;
    const Slots& slots;
    const Buffers& buffers;
    const HeldMemory& held;
    const Peers& peers;
    const Connections& connections;
    const Probes& probes;
  };

  explicit FiguresReader(const Needs& needs) : needs_(needs) {}

  Figures Read();

 private:
  void AddProbes(const std::string& node, std::map<ProbeKey, double>& probes) const;

  const Needs needs_;
};

}  // namespace onecopy::engine
