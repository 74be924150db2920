// Memory of this node that others read to probe the way here: a few pieces at a time, for a short
// while.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/exported_range.h"
#include "daemon/engine/probing/probes.h"

namespace onecopy::engine {

inline constexpr uint64_t kMaxProbeBytes = uint64_t{64} << 20;

// Engine thread. See PeerApi for what the calls do.
class ProbeSlabs {
 public:
  ProbeSlabs(Context& context, const Catalog& catalog, Connections& connections, Probes& probes)
      : context_(context), catalog_(catalog), connections_(connections), probes_(probes) {}

  // Memory that no network device here reaches is refused with the reason, once that has been
  // tried: a node that probes itself is just trying.
  void Open(const std::string& caller, OpenProbeRequest request, Reply<OpenProbeReply> reply);
  // One that is not there (any more) is not an error.
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
    std::shared_ptr<ExportedRange> range;  // once there is memory
    os::EventLoop::TimerId timer = 0;
    bool unwanted = false;  // being closed, or to be closed once there is memory
    std::unique_ptr<Reply<OpenProbeReply>> opening;  // while the range is being opened
    std::vector<StatusReply> closing;
    std::shared_ptr<void> activity;
  };

  Status Check(const std::string& caller, const OpenProbeRequest& request) const;
  void Make(uint64_t number, const OpenProbeRequest& request, Reply<OpenProbeReply> reply);
  void Export(uint64_t number, RegionRef region, Reply<OpenProbeReply> reply);
  void CloseSlab(uint64_t number);
  void Erase(uint64_t number);
  // Null when it is unwanted or gone: then it has been brought to its end.
  Slab* Wanted(uint64_t number);

  Context& context_;
  const Catalog& catalog_;
  Connections& connections_;
  Probes& probes_;
  std::map<uint64_t, Slab> slabs_;
};

}  // namespace onecopy::engine
