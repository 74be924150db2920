// What every part of the engine needs: the thread they share, the backends, and who this node is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/base/flows.h"
#include "daemon/engine/base/ledger.h"
#include "daemon/engine/base/options.h"
#include "daemon/engine/base/paces.h"
#include "daemon/engine/base/workers.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/memory.h"
#include "transport/core/contracts/store.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Owned by the engine; outlives every part.
struct Context {
  Options options;
  Ledger ledger;
  std::string boot_id;
  WallTime started;
  os::EventLoop& loop;
  Workers& workers;
  std::vector<Memory*> memories;
  std::vector<Link*> links;
  std::vector<Store*> stores;
  Copier& files;                 // between them and host memory
  Copier& direct_files;          // between them and memory of GPUs
  bool serving = false;          // the daemon's start has succeeded
  bool draining = false;         // takes no new transfers
  bool ending = false;           // draining because the daemon ends, which nothing takes back
  bool stopping = false;         // nothing begins any more, be it a part of what has begun
  WallTime draining_since = {};  // where it drains
  size_t reports_under_way = 0;  // about transfers, to other nodes
  Flows flows = {};
  Paces paces{loop};

  const std::string& node() const { return options.node; }
  bool IsSelf(const std::string& name) const { return name.empty() || name == options.node; }
  // Why it takes no new transfers: UNAVAILABLE (DRAINING).
  Status Draining() const;
  // Null when this daemon has no such backend.
  Memory* FindMemory(const std::string& kind) const;
  Link* FindLink(const std::string& name) const;
  // The first store that opens files to host memory, and to memory of GPUs.
  Store* FindStore(bool direct) const;
  // See Link::EndLeases, of all links.
  void EndLeases(const RegionRef& region) const;
  // What copies between these two, null when nothing does.
  Copier* CopierFor(const Place& from, const Place& to) const;
};

}  // namespace onecopy::engine
