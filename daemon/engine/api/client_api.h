// What a client of this node may ask for; the gRPC services are thin adapters of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daemon/engine/api/types.h"
#include "transport/core/ranges/range_groups.h"

namespace onecopy::engine {

// Engine thread. Every reply comes exactly once, on the engine's thread, possibly before the call
// returns.
class ClientApi {
 public:
  using WatchId = uint64_t;

  virtual ~ClientApi() = default;

  // `ranges`: what the request's ranges come to, checked. The request itself need not hold them any
  // more.
  virtual void CreateTransfer(const Principal& who, TransferRequest request, RangeGroups ranges,
                              Reply<TransferInfo> reply) = 0;
  virtual void GetTransfer(const Principal& who, TransferId id, Reply<TransferInfo> reply) = 0;
  virtual void ListTransfers(const Principal& who, PageRequest page,
                             Reply<Page<TransferInfo>> reply) = 0;
  // `update` runs at once and after each change, and last with a final state. Fails like
  // GetTransfer.
  virtual Result<WatchId> WatchTransfer(const Principal& who, const TransferId& id,
                                        std::function<void(const TransferInfo&)> update) = 0;
  virtual void Unwatch(WatchId watch) = 0;  // one that has ended is not an error
  virtual void CancelTransfer(const Principal& who, TransferId id, Reply<TransferInfo> reply) = 0;
  // See onecopy.v1.TransferService.
  virtual void OpenSeries(const Principal& who, SeriesRequest request,
                          Reply<TransferInfo> reply) = 0;
  virtual void EndSeries(const Principal& who, SeriesEnd end, Reply<TransferInfo> reply) = 0;

  virtual void CreateBuffer(const Principal& who, CreateBufferRequest request,
                            Reply<BufferInfo> reply) = 0;
  virtual void RegisterBuffer(const Principal& who, RegisterBufferRequest request,
                              Reply<BufferInfo> reply) = 0;
  // See onecopy.v1.BufferService.
  virtual void CreateViews(const Principal& who, std::vector<ViewRequest> views,
                           Reply<std::vector<BufferInfo>> reply) = 0;
  // `node` empty: this one.
  virtual void GetBuffer(const Principal& who, std::string node, std::string name,
                         Reply<BufferInfo> reply) = 0;
  virtual void ListBuffers(const Principal& who, std::string node, PageRequest page,
                           Reply<Page<BufferInfo>> reply) = 0;
  virtual void DeleteBuffer(const Principal& who, std::string node, std::string name, bool force,
                            StatusReply reply) = 0;
  virtual void SumBuffer(const Principal& who, SumRequest request, Reply<BufferSum> reply) = 0;

  virtual void CreateGrant(const Principal& who, CreateGrantRequest request,
                           Reply<GrantInfo> reply) = 0;
  // `buffer` empty: on all buffers that `who` owns, and those given to `who`; then `node` may be
  // another one.
  virtual void ListGrants(const Principal& who, std::string node, std::string buffer,
                          PageRequest page, Reply<Page<GrantInfo>> reply) = 0;
  virtual void DeleteGrant(const Principal& who, GrantId id, StatusReply reply) = 0;

  // See onecopy.v1.ArrivalService. `news` runs whenever TakeArrivals may have something new to say,
  // but not before this has returned.
  virtual Result<WatchId> WatchArrivals(const Principal& who, const std::string& buffer,
                                        std::function<void()> news) = 0;
  // The next ones, bounded; nothing without news, or without such a watch.
  virtual ArrivalsTold TakeArrivals(WatchId watch) = 0;
  virtual void UnwatchArrivals(WatchId watch) = 0;  // one that has ended is not an error
  virtual void AcknowledgeArrivals(const Principal& who, WatchId watch, uint64_t count,
                                   StatusReply reply) = 0;
  virtual void SendMessage(const Principal& who, MessageRequest request, StatusReply reply) = 0;

  virtual void GetNode(const Principal& who, std::string name, Reply<NodeInfo> reply) = 0;
  // This node first, then its peers by name.
  virtual void ListNodes(const Principal& who, PageRequest page, Reply<Page<NodeInfo>> reply) = 0;
  // Probes again the way from that node to this one or, if the name is empty, from every connected
  // peer and between this node's own devices; answers with what is known then. Only for an
  // administrator does it repeat what was probed lately.
  virtual void ProbeNode(const Principal& who, std::string name,
                         Reply<std::vector<ProbeInfo>> reply) = 0;
  virtual void ReleaseDevice(const Principal& who, std::string device, StatusReply reply) = 0;
  // The folders that `node` exports to `who`.
  virtual void ListExports(const Principal& who, std::string node, PageRequest page,
                           Reply<Page<ExportInfo>> reply) = 0;
  // The previous level. Levels: "debug", "info", "warning", "error".
  virtual void SetLogLevel(const Principal& who, std::string level, Reply<std::string> reply) = 0;
  // Has the node take no new transfers, or take them again. Replies with how many run: now, or,
  // with `wait`, once none does. Administrators only.
  virtual void SetDraining(const Principal& who, bool draining, bool wait,
                           Reply<uint64_t> reply) = 0;
};

}  // namespace onecopy::engine
