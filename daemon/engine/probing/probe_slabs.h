// Memory of this node that others read to probe the way here: a few pieces at a time, for a short
// while.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/parts.h"
#include "daemon/engine/peering/connections.h"

namespace onecopy::engine {

inline constexpr uint64_t kMostProbeBytes = uint64_t{64} << 20;

// Engine thread. See PeerApi for what the calls do.
class ProbeSlabs {
 public:
  explicit ProbeSlabs(Parts& parts) : parts_(parts) {}

  // Memory that no network device here reaches is refused with the reason, once that has been
  // tried: a node that probes itself is just trying.
  void Open(const std::string& caller, OpenProbeRequest request, Reply<OpenProbeReply> reply);
  // One that is not there (any more) is no error.
  void Close(const std::string& caller, uint64_t probe, StatusReply reply);

  // The peer is not the one that it was.
  void DropPeer(const std::string& node);
  void CloseAll();
  size_t open() const { return slabs_.size(); }

 private:
  struct Slab {
    std::string caller;
    Connections::Serving serving;
    RegionRef region;
    RemoteKey key;
    os::EventLoop::TimerId timer = 0;
    bool busy = true;  // being made, or being closed
    bool unwanted = false;
    std::vector<StatusReply> closing;
    std::shared_ptr<void> activity;
  };

  Status Check(const std::string& caller, const OpenProbeRequest& request) const;
  void Make(uint64_t number, const OpenProbeRequest& request, Reply<OpenProbeReply> reply);
  void Expose(uint64_t number, RegionRef region, Reply<OpenProbeReply> reply);
  void CloseSlab(uint64_t number);
  void Erase(uint64_t number);
  // Null when it is unwanted or gone: then it has been brought to its end.
  Slab* Wanted(uint64_t number);

  Parts& parts_;
  std::map<uint64_t, Slab> slabs_;
};

}  // namespace onecopy::engine
