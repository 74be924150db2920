// Requests of this node's clients: checks the client's rights and passes each request to the part
// that serves it.
#pragma once

#include "daemon/engine/api/client_api.h"
#include "daemon/engine/arrivals/arrivals.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/inventory.h"
#include "daemon/engine/mapping/mappings.h"
#include "daemon/engine/node_drain.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/peering/nodes.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/path_rates.h"
#include "daemon/engine/probing/probes.h"
#include "daemon/engine/registry/buffer_maker.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/exports.h"
#include "daemon/engine/registry/files.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/openings.h"
#include "daemon/engine/registry/sessions.h"
#include "daemon/engine/registry/views.h"
#include "daemon/engine/removal.h"
#include "daemon/engine/rings/rings.h"
#include "daemon/engine/transfers/coordinator.h"
#include "daemon/engine/transfers/remote_transfers.h"
#include "daemon/engine/transfers/series.h"
#include "daemon/engine/transfers/tally.h"
#include "daemon/engine/transfers/transfers.h"

namespace onecopy::engine {

class ClientService final : public ClientApi {
 public:
  // Each call goes to the one of these whose business it is.
  struct Needs {
    Context& context;
    const Owners& owners;
    const Sessions& sessions;
    Buffers& buffers;
    BufferMaker& maker;
    Files& files;
    Grants& grants;
    Views& views;
    Inventory& inventory;
    Arrivals& arrivals;
    Catalog& catalog;
    Peers& peers;
    Nodes& nodes;
    const Connections& connections;
    Probes& probes;
    const PathRates& path_rates;
    Transfers& transfers;
    RemoteTransfers& remote_transfers;
    Coordinator& orders;
    Series& series;
    Rings& rings;
    Openings& openings;
    Mappings& mappings;
    Removal& removal;
    Tally& tally;
    NodeDrain& drain;
    const Exports& exports;
  };

  explicit ClientService(const Needs& needs) : needs_(needs) {}

  void CreateTransfer(const Principal& who, TransferRequest request, RangeGroups ranges,
                      Reply<TransferInfo> reply) override;
  void GetTransfer(const Principal& who, TransferId id, Reply<TransferInfo> reply) override;
  void ListTransfers(const Principal& who, PageRequest page,
                     Reply<Page<TransferInfo>> reply) override;
  Result<WatchId> WatchTransfer(const Principal& who, const TransferId& id,
                                std::function<void(const TransferInfo&)> update) override;
  void Unwatch(WatchId watch) override;
  void CancelTransfer(const Principal& who, TransferId id, Reply<TransferInfo> reply) override;
  void OpenSeries(const Principal& who, SeriesRequest request, Reply<TransferInfo> reply) override;
  void EndSeries(const Principal& who, SeriesEnd end, Reply<TransferInfo> reply) override;

  void CreateBuffer(const Principal& who, CreateBufferRequest request,
                    Reply<BufferInfo> reply) override;
  void RegisterBuffer(const Principal& who, RegisterBufferRequest request,
                      Reply<BufferInfo> reply) override;
  void CreateViews(const Principal& who, std::vector<ViewRequest> views,
                   Reply<std::vector<BufferInfo>> reply) override;
  void GetBuffer(const Principal& who, std::string node, std::string name,
                 Reply<BufferInfo> reply) override;
  void ListBuffers(const Principal& who, std::string node, PageRequest page,
                   Reply<Page<BufferInfo>> reply) override;
  void DeleteBuffer(const Principal& who, std::string node, std::string name, bool force,
                    StatusReply reply) override;
  void SumBuffer(const Principal& who, SumRequest request, Reply<BufferSum> reply) override;

  void CreateGrant(const Principal& who, CreateGrantRequest request,
                   Reply<GrantInfo> reply) override;
  void ListGrants(const Principal& who, std::string node, std::string buffer, PageRequest page,
                  Reply<Page<GrantInfo>> reply) override;
  void DeleteGrant(const Principal& who, GrantId id, StatusReply reply) override;

  Result<WatchId> WatchArrivals(const Principal& who, const std::string& buffer,
                                std::function<void()> news) override;
  ArrivalsTold TakeArrivals(WatchId watch) override;
  void UnwatchArrivals(WatchId watch) override;
  void AcknowledgeArrivals(const Principal& who, WatchId watch, uint64_t count,
                           StatusReply reply) override;
  void SendMessage(const Principal& who, MessageRequest request, StatusReply reply) override;

  void GetNode(const Principal& who, std::string name, Reply<NodeInfo> reply) override;
  void ListNodes(const Principal& who, PageRequest page, Reply<Page<NodeInfo>> reply) override;
  void ProbeNode(const Principal& who, std::string name,
                 Reply<std::vector<ProbeInfo>> reply) override;
  void ListExports(const Principal& who, std::string node, PageRequest page,
                   Reply<Page<ExportInfo>> reply) override;
  void ReleaseDevice(const Principal& who, std::string device, StatusReply reply) override;
  void SetLogLevel(const Principal& who, std::string level, Reply<std::string> reply) override;
  void SetDraining(const Principal& who, bool draining, bool wait, Reply<uint64_t> reply) override;

 private:
  // Releases the file that was opened for a request, once no request can name it any more.
  void SettleFile(const TransferRequest& opened, const Result<TransferInfo>& made);
  void Order(const Principal& who, TransferRequest request, RangeGroups ranges,
             Reply<TransferInfo> reply);
  // Answers with a transfer that was made; a small one inside this node when it has ended, if that
  // is soon.
  void AnswerSmall(Result<TransferInfo> made, Reply<TransferInfo> reply);
  template <typename T, typename Ask>
  bool AskedElsewhere(const std::string& node, Reply<T>& reply, const Ask& ask);
  // The record, if `who` may see it.
  Result<TransferRecord*> FindTransfer(const Principal& who, const TransferId& id);
  NodeInfo DescribeSelf() const;
  void AddProbes(NodeInfo& node) const;

  const Needs needs_;
};

}  // namespace onecopy::engine
