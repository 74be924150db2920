// This node's services to its peers, and to itself.
#pragma once

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/arrivals/messages.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/inventory.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/probe_slabs.h"
#include "daemon/engine/registry/buffer_maker.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/exports.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/openings.h"
#include "daemon/engine/registry/tickets.h"
#include "daemon/engine/removal.h"
#include "daemon/engine/rings/ring_server.h"
#include "daemon/engine/sharing/memory_exporter.h"
#include "daemon/engine/sharing/memory_importer.h"
#include "daemon/engine/transfers/bundles.h"
#include "daemon/engine/transfers/destinations.h"
#include "daemon/engine/transfers/remote_transfers.h"
#include "daemon/engine/transfers/resumed_destinations.h"
#include "daemon/engine/transfers/sources.h"
#include "daemon/engine/transfers/transfers.h"

namespace onecopy::engine {

class PeerService final : public PeerApi {
 public:
  // Each call goes to the one of these whose business it is.
  struct Needs {
    const Context& context;
    const Owners& owners;
    Peers& peers;
    Connections& connections;
    Tickets& tickets;
    Exports& exports;
    Buffers& buffers;
    BufferMaker& maker;
    Grants& grants;
    Inventory& inventory;
    Messages& messages;
    Transfers& transfers;
    RemoteTransfers& remote_transfers;
    Sources& sources;
    Destinations& destinations;
    ResumedDestinations& resumed;
    Bundles& bundles;
    ProbeSlabs& probe_slabs;
    RingServer& rings;
    Openings& openings;
    MemoryExporter& exporter;
    MemoryImporter& importer;
    Removal& removal;
  };

  explicit PeerService(const Needs& needs) : needs_(needs) {}

  void Hello(const std::string& caller, HelloRequest request, Reply<HelloReply> reply) override;
  void Reserve(const std::string& caller, ReserveRequest request,
               Reply<Reservation> reply) override;
  void Start(const std::string& caller, StartRequest request, Reply<TransferInfo> reply) override;
  void Connect(const std::string& caller, ConnectRequest request,
               Reply<ConnectReply> reply) override;
  void Prepare(const std::string& caller, PrepareRequest request,
               Reply<PrepareReply> reply) override;
  void Finish(const std::string& caller, FinishRequest request, Reply<FinishReply> reply) override;
  void OpenProbe(const std::string& caller, OpenProbeRequest request,
                 Reply<OpenProbeReply> reply) override;
  void CloseProbe(const std::string& caller, uint64_t probe, StatusReply reply) override;
  void OpenRange(const std::string& caller, OpenRangeRequest request,
                 Reply<OpenRangeReply> reply) override;
  void OpenPush(const std::string& caller, OpenPushRequest request,
                Reply<OpenPushReply> reply) override;
  void CloseOpening(const std::string& caller, uint64_t opening, StatusReply reply) override;
  void ImportMemory(const std::string& caller, ImportMemoryRequest request,
                    Reply<MemoryExport> reply) override;
  void Recall(const std::string& caller, uint64_t loan, TransferId id, StatusReply reply) override;
  void Report(const std::string& caller, TransferInfo transfer, StatusReply reply) override;
  void Query(const std::string& caller, TransferId id, Reply<TransferInfo> reply) override;
  void Cancel(const std::string& caller, Uid uid, TransferId id,
              Reply<TransferInfo> reply) override;
  void CreateBuffer(const std::string& caller, Uid uid, CreateBufferRequest request,
                    Reply<BufferInfo> reply) override;
  void DeleteBuffer(const std::string& caller, Uid uid, std::string name, bool force,
                    StatusReply reply) override;
  void GetBuffer(const std::string& caller, Uid uid, std::string name,
                 Reply<BufferInfo> reply) override;
  void ListBuffers(const std::string& caller, Uid uid, PageRequest page,
                   Reply<Page<BufferInfo>> reply) override;
  void SumBuffer(const std::string& caller, Uid uid, SumRequest request,
                 Reply<BufferSum> reply) override;
  void ListExports(const std::string& caller, Uid uid, PageRequest page,
                   Reply<Page<ExportInfo>> reply) override;
  void ListGrants(const std::string& caller, Uid uid, PageRequest page,
                  Reply<Page<GrantInfo>> reply) override;
  void SendMessage(const std::string& caller, PeerMessage message, StatusReply reply) override;

 private:
  // A file of this node's, below a folder that it exports.
  void StartIntoFile(const std::string& caller, StartRequest request, Reply<TransferInfo> reply);
  // Room for so much memory in buffers of that node's users, which together have `limit`.
  Result<std::shared_ptr<void>> TakeRoom(const std::string& peer, uint64_t bytes, uint64_t limit);
  // A transfer that this node decides and `caller` has a part in.
  Result<TransferRecord*> FindDecided(const std::string& caller, const TransferId& id);

  const Needs needs_;
};

}  // namespace onecopy::engine
