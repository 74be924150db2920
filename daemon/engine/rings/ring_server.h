// What this node does for small transfers that other nodes' clients ask for by their rings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/openings.h"
#include "daemon/engine/registry/tickets.h"
#include "daemon/engine/rings/copy_ways.h"
#include "daemon/engine/rings/push_ends.h"
#include "daemon/engine/rings/remote_route.h"
#include "daemon/engine/sharing/memory_exporter.h"
#include "daemon/engine/staging/registrations.h"
#include "daemon/pipeline/small_server.h"
#include "daemon/pipeline/sum_server.h"
#include "daemon/ring/ring_thread.h"

namespace onecopy::engine {

// Engine thread. See PeerApi for both calls; what they open is closed by CloseOpening.
class RingServer {
 public:
  struct Needs {
    Context& context;
    Buffers& buffers;
    Grants& grants;
    Tickets& tickets;
    Connections& connections;
    Registrations& registrations;
    Openings& openings;
    MemoryExporter& exporter;
    RemoteRoutes& routes;
    ring::RingThread& ring;
    PushEnds& ends;
  };

  explicit RingServer(const Needs& needs) : needs_(needs) {}

  // Opens a range of a buffer here, for the caller to read again and again.
  void OpenRange(const std::string& caller, const OpenRangeRequest& request,
                 Reply<OpenRangeReply> reply);
  // Opens a range of a buffer here that this node fills from the caller's when it is told to.
  void OpenPush(const std::string& caller, OpenPushRequest request, Reply<OpenPushReply> reply);

 private:
  struct Range;
  struct Push;

  void OpenInPlace(const std::string& caller, const OpenRangeRequest& request,
                   Reply<OpenRangeReply> reply);
  // The ticket, used up, and the opening of its range.
  struct Begun {
    Ticket ticket;
    uint64_t number = 0;
  };
  // Null if the reader does not want checksums, or the processor cannot read this memory.
  static std::shared_ptr<pipeline::SumServer> SumsOf(const Range& range, const Span& span);
  // Null if the link reads the range itself.
  std::shared_ptr<pipeline::SmallServer> FillsOf(Range& range) const;
  // Gets memory, and a way into it, for a range that the link cannot read.
  void Stage(const std::shared_ptr<Range>& range);
  void Ensure(const std::shared_ptr<Range>& range, const std::string& client_buffer);
  Result<Begun> Begin(const std::string& caller, const OpenRangeRequest& request);
  void Export(const std::shared_ptr<Range>& range, const Status& registered);
  void Serve(const std::shared_ptr<Push>& push, Result<RemoteRoute> route);
  void ServeGets(const std::shared_ptr<Push>& push, RemoteRoute route);
  void ServeStaged(const std::shared_ptr<Push>& push, RemoteRoute route);
  // In place: messages need a connection of their own, and the copies their ways.
  void ServeInPlace(const std::shared_ptr<Push>& push, RemoteRoute route);
  void Prepared(const std::shared_ptr<Push>& push, const RemoteRoute& route, CopyWays ways);
  std::unique_ptr<pipeline::SmallReader> ReaderOf(const Push& push, const RemoteRoute& route,
                                                  std::shared_ptr<SmallCopyRoute> way,
                                                  PushEnds::Ended ended) const;
  void Answer(const std::shared_ptr<Push>& push, std::vector<pipeline::SmallServer::Params> ways);
  void Refuse(const std::shared_ptr<Push>& push, const Status& why);

  const Needs needs_;
};

}  // namespace onecopy::engine
