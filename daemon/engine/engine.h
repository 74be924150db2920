// The daemon without its sockets for clients and peers: all mutable state, on one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/api/client_api.h"
#include "daemon/engine/api/figures.h"
#include "daemon/engine/api/mapping_api.h"
#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/api/ring_api.h"
#include "daemon/engine/api/slab_api.h"
#include "daemon/engine/base/options.h"
#include "daemon/engine/registry/sessions.h"
#include "transport/core/base/unique_function.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/memory.h"
#include "transport/core/contracts/store.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

class Engine {
 public:
  // Takes the backends that exist here; `dialer` must outlive the engine.
  Engine(Options options, std::vector<std::unique_ptr<Memory>> memories,
         std::vector<std::unique_ptr<Link>> links, PeerDialer& dialer,
         std::vector<std::unique_ptr<Store>> stores = {});
  ~Engine();  // Stop() first
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any thread. Everything below lives on this executor's thread.
  os::EventLoop& loop();

  // Any thread: who pays for what, at each of the daemon's doors, too.
  const Ledger& ledger() const;

  // Engine thread.
  ClientApi& client();
  PeerApi& node();  // this node, as a peer asks it
  Sessions& sessions();
  RingApi& rings();
  SlabApi& slabs();
  MappingApi& mappings();
  bool has_stores() const;  // any thread
  // Whether calls of that node may be made: see Admission.
  Status AdmitPeer(const std::string& node, bool local);

  // Any thread: `reply` runs once, on the engine's thread, unless the engine stops before.
  void ReadFigures(UniqueFunction<void(Figures)> reply);
  // The same, with Figures::status; see StatusReader.
  void ReadStatus(UniqueFunction<void(Figures)> reply);

  // Any thread: begins to connect to peers, and to answer them. `address` is where they reach this
  // node, HOST:PORT, which may be known only once its server listens.
  void Start(const std::string& address);
  // Any thread: other peers than Options named; see Peers::Configure.
  void SetPeers(std::vector<PeerOptions> peers);
  // Any thread: other folders than Options named; see Exports::Configure.
  void SetExports(std::vector<ExportOptions> exports);
  // Any thread: other shares than Options named; see Flows::Configure.
  void SetShares(std::vector<ShareOptions> shares);
  // Any thread: refuses new transfers; `done` runs on the engine's thread when the running ones
  // have ended, or have been cancelled after the drain timeout.
  void Drain(Task done);
  // Any thread but the engine's: ends everything and joins every thread. Nothing replies
  // afterwards.
  void Stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace onecopy::engine
