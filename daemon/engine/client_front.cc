#include "daemon/engine/client_front.h"

#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/names.h"
#include "daemon/engine/base/paging.h"
#include "daemon/engine/peer_front.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/path_rates.h"
#include "daemon/engine/probing/probes.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/openings.h"
#include "daemon/engine/registry/tickets.h"
#include "daemon/engine/rings/rings.h"
#include "daemon/engine/sharing/lender.h"
#include "daemon/engine/transfers/mirrors.h"
#include "daemon/engine/transfers/series.h"
#include "daemon/engine/transfers/transfers.h"
#include "daemon/log/audit.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// What is waited for before the caller hears that its transfer was made, and how long.
constexpr uint64_t kSmallBytes = 64 * 1024;
constexpr std::chrono::milliseconds kSmallPatience{2};

Status AdministratorsOnly(const std::string& what) {
  return {Code::kPermissionDenied, reasons::kNotOwner, what + " is for administrators",
          "ask as the user that onecopyd runs as, or as root"};
}

}  // namespace

void ClientFront::CreateTransfer(const Principal& who, TransferRequest request,
                                 Reply<TransferInfo> reply) {
  if (request.validate_only) return orders_.Create(who, std::move(request), std::move(reply));
  orders_.Create(who, std::move(request),
                 [this, reply = std::move(reply)](Result<TransferInfo> made) mutable {
                   AnswerSmall(std::move(made), std::move(reply));
                 });
}

// A second call, to hear of the end, would take longer than a small transfer inside the node does.
void ClientFront::AnswerSmall(Result<TransferInfo> made, Reply<TransferInfo> reply) {
  const bool soon = made.ok() && !IsFinal(made->state) && made->bytes <= kSmallBytes &&
                    parts_.context.IsSelf(made->source.node) &&
                    parts_.context.IsSelf(made->destination.node);
  if (!soon) return reply(std::move(made));
  struct Waiting {
    Reply<TransferInfo> reply;
    TransferInfo now;
    WatchId watch = 0;
    os::EventLoop::TimerId timer = 0;
  };
  auto waiting = std::make_shared<Waiting>();
  waiting->reply = std::move(reply);
  const TransferId id = made->id;
  auto answer = [this, waiting] {
    parts_.context.loop.CancelTimer(waiting->timer);
    if (waiting->reply) std::exchange(waiting->reply, nullptr)(std::move(waiting->now));
  };
  waiting->timer = parts_.context.loop.RunAfter(kSmallPatience, [this, waiting, answer] {
    parts_.transfers.Unwatch(waiting->watch);
    answer();
  });
  const auto watch = parts_.transfers.Watch(id, [waiting, answer](const TransferInfo& info) {
    waiting->now = info;
    if (IsFinal(info.state)) answer();
  });
  if (watch.ok()) {
    waiting->watch = *watch;
  } else {
    waiting->now = std::move(*made);
    answer();
  }
}

Result<TransferRecord*> ClientFront::FindTransfer(const Principal& who, const TransferId& id) {
  if (parts_.transfers.Find(id) == nullptr) parts_.rings.File(id);
  TransferRecord* record = parts_.transfers.Find(id);
  if (record != nullptr && parts_.owners.Owns(who, record->owner)) return record;
  if (record != nullptr) {
    const std::string asking = who.ToString();
    const std::string from = parts_.sessions.Describe(who.session);
    audit::Write({.who = asking,
                  .from = from,
                  .what = "see a transfer",
                  .on = id.str(),
                  .why = {Code::kPermissionDenied, reasons::kNotOwner,
                          "it belongs to " + record->owner.ToString()}});
  }
  // Whoever may not see it learns nothing, not even that it exists.
  return Status(
      Code::kNotFound, reasons::kTransferNotFound,
      "node " + parts_.context.node() + " knows no transfer " + Printable(id.str()) + " of yours",
      "onecopy transfer ls shows those it knows");
}

void ClientFront::GetTransfer(const Principal& who, TransferId id, Reply<TransferInfo> reply) {
  Result<TransferRecord*> record = FindTransfer(who, id);
  if (!record.ok()) return reply(record.status());
  reply((*record)->info);
}

void ClientFront::ListTransfers(const Principal& who, PageRequest page,
                                Reply<Page<TransferInfo>> reply) {
  parts_.rings.FileAll();
  reply(parts_.transfers.List(page, who, parts_.owners));
}

Result<ClientApi::WatchId> ClientFront::WatchTransfer(
    const Principal& who, const TransferId& id, std::function<void(const TransferInfo&)> update) {
  ONECOPY_ASSIGN_OR_RETURN(TransferRecord* const record, FindTransfer(who, id));
  return parts_.transfers.Watch(record->info.id, std::move(update));
}

void ClientFront::Unwatch(WatchId watch) { parts_.transfers.Unwatch(watch); }

void ClientFront::CancelTransfer(const Principal& who, TransferId id, Reply<TransferInfo> reply) {
  Result<TransferRecord*> record = FindTransfer(who, id);
  if (!record.ok()) return reply(record.status());
  if (IsFinal((*record)->info.state)) return reply((*record)->info);
  const std::string decider = parts_.mirrors.DecidedBy(id);
  if (decider.empty()) return self_.Cancel(parts_.context.node(), who.uid, id, std::move(reply));
  Result<PeerApi*> peer = parts_.peers.Find(decider);
  if (!peer.ok()) return reply(peer.status());
  (*peer)->Cancel(parts_.context.node(), who.uid, id, std::move(reply));
}

void ClientFront::OpenSeries(const Principal& who, SeriesRequest request,
                             Reply<TransferInfo> reply) {
  reply(parts_.series.Open(who, std::move(request)));
}

void ClientFront::EndSeries(const Principal& who, SeriesEnd end, Reply<TransferInfo> reply) {
  reply(parts_.series.End(who, end));
}

void ClientFront::CreateBuffer(const Principal& who, CreateBufferRequest request,
                               Reply<BufferInfo> reply) {
  parts_.buffers.Create(who, request, std::move(reply));
}

void ClientFront::RegisterBuffer(const Principal& who, RegisterBufferRequest request,
                                 Reply<BufferInfo> reply) {
  parts_.buffers.Register(who, request, std::move(reply));
}

void ClientFront::GetBuffer(const Principal& who, std::string node, std::string name,
                            Reply<BufferInfo> reply) {
  if (!parts_.context.IsSelf(node)) {
    Result<PeerApi*> peer = parts_.peers.Find(node);
    if (!peer.ok()) return reply(peer.status());
    return (*peer)->GetBuffer(parts_.context.node(), who.uid, std::move(name), std::move(reply));
  }
  Result<Buffer*> buffer = parts_.grants.FindKnown(parts_.buffers, who, name);
  if (!buffer.ok()) return reply(buffer.status());
  if (!parts_.grants.Sees(who, **buffer)) {
    return reply(
        Status(Code::kPermissionDenied, reasons::kNotOwner,
               "buffer \"" + (*buffer)->name + "\" belongs to " + (*buffer)->owner.ToString(),
               "its owner can allow you to use it: onecopy grant add"));
  }
  reply(parts_.buffers.Describe(**buffer));
}

void ClientFront::ListBuffers(const Principal& who, std::string node, PageRequest page,
                              Reply<Page<BufferInfo>> reply) {
  if (!parts_.context.IsSelf(node)) {
    Result<PeerApi*> peer = parts_.peers.Find(node);
    if (!peer.ok()) return reply(peer.status());
    return (*peer)->ListBuffers(parts_.context.node(), who.uid, std::move(page), std::move(reply));
  }
  reply(BuffersSeenBy(parts_, who, page));
}

Result<Buffer*> ClientFront::FindOwn(const Principal& who, const std::string& name) {
  ONECOPY_ASSIGN_OR_RETURN(Buffer* const buffer,
                           parts_.grants.FindKnown(parts_.buffers, who, name));
  if (parts_.owners.Owns(who, buffer->owner)) return buffer;
  return Status(Code::kPermissionDenied, reasons::kNotOwner,
                "buffer \"" + buffer->name + "\" belongs to " + buffer->owner.ToString() +
                    ", not to " + who.ToString());
}

void ClientFront::DeleteBuffer(const Principal& who, std::string name, bool force,
                               StatusReply reply) {
  Result<Buffer*> buffer = FindOwn(who, name);
  if (!buffer.ok()) return reply(buffer.status());
  const BufferId id = (*buffer)->id;
  // Memory that another daemon still has open must not be freed by its owner.
  auto removed = [this, id, reply = std::move(reply)](const Status& status) mutable {
    parts_.lender.WhenRecalled(id, [this, id, status, reply = std::move(reply)]() mutable {
      parts_.rings.WhenLetGo(id, [this, id, status, reply = std::move(reply)]() mutable {
        parts_.openings.WhenLetGo(id,
                                  [status, reply = std::move(reply)]() mutable { reply(status); });
      });
    });
  };
  parts_.buffers.Remove(id, force,
                        {Code::kCancelled, reasons::kCancelled,
                         "buffer \"" + (*buffer)->name + "\" was removed by " + who.ToString()},
                        std::move(removed));
}

void ClientFront::SumBuffer(const Principal& who, Endpoint range, Reply<Sum> reply) {
  if (!parts_.context.IsSelf(range.node)) {
    Result<PeerApi*> peer = parts_.peers.Find(range.node);
    if (!peer.ok()) return reply(peer.status());
    return (*peer)->SumBuffer(parts_.context.node(), who.uid, std::move(range), std::move(reply));
  }
  SumOf(parts_, who, range, std::move(reply));
}

void ClientFront::CreateGrant(const Principal& who, CreateGrantRequest request,
                              Reply<GrantInfo> reply) {
  if (!parts_.context.IsSelf(request.range.node)) {
    return reply(Status(Code::kInvalidArgument, reasons::kBadEndpoint,
                        "a grant is made on the buffer's own node, " + request.range.node));
  }
  Result<Buffer*> buffer = FindOwn(who, request.range.buffer);
  if (!buffer.ok()) return reply(buffer.status());
  Result<ByteRange> range =
      ResolveRange(request.range, (*buffer)->bytes, "buffer \"" + (*buffer)->name + "\"");
  if (!range.ok()) return reply(range.status());
  Result<Owner> to = ParseOwner(request.to, parts_.context.node());
  if (!to.ok()) return reply(to.status());
  reply(parts_.grants.Create(who, **buffer, *range, *to, request.read, request.write,
                             request.lifetime));
}

void ClientFront::ListGrants(const Principal& who, std::string node, std::string buffer,
                             PageRequest page, Reply<Page<GrantInfo>> reply) {
  if (!parts_.context.IsSelf(node)) {
    if (!buffer.empty()) {
      return reply(Status(Code::kInvalidArgument, reasons::kBadArgument,
                          "the grants on one buffer are told by the buffer's own node",
                          "leave the buffer out, or ask on node " + node));
    }
    Result<PeerApi*> peer = parts_.peers.Find(node);
    if (!peer.ok()) return reply(peer.status());
    return (*peer)->ListGrants(parts_.context.node(), who.uid, std::move(page), std::move(reply));
  }
  if (!buffer.empty()) {
    Result<Buffer*> found = FindOwn(who, buffer);
    if (!found.ok()) return reply(found.status());
    return reply(parts_.grants.List(page, {(*found)->id}));
  }
  if (who.administrator) return reply(parts_.grants.ListAll(page));
  reply(GrantsOf(parts_, who, page));
}

void ClientFront::DeleteGrant(const Principal& who, GrantId id, StatusReply reply) {
  const Grants::Grant* grant = parts_.grants.Find(id);
  const Buffer* buffer = grant == nullptr ? nullptr : parts_.buffers.FindById(grant->buffer);
  if (buffer == nullptr || !parts_.owners.Owns(who, buffer->owner)) {
    if (buffer != nullptr) {
      const std::string asking = who.ToString();
      const std::string from = parts_.sessions.Describe(who.session);
      audit::Write({.who = asking,
                    .from = from,
                    .what = "DeleteGrant",
                    .on = id.str(),
                    .why = {Code::kPermissionDenied, reasons::kNotOwner,
                            "it was given by " + buffer->owner.ToString()}});
    }
    return reply(
        {Code::kNotFound, reasons::kGrantNotFound,
         "you have given no grant " + Printable(id.str()) + " on node " + parts_.context.node(),
         "onecopy grant ls shows those you have given"});
  }
  parts_.grants.Delete(
      id, {Code::kPermissionDenied, reasons::kNotOwner,
           "the right to buffer \"" + buffer->name + "\" was taken back by its owner"});
  reply(OkStatus());
}

NodeInfo ClientFront::DescribeSelf() const {
  const Introduction self = parts_.peers.Introduce();
  NodeInfo info;
  info.name = self.node;
  info.self = true;
  info.state = self.draining ? NodeState::kDraining : NodeState::kConnected;
  info.address = self.address;
  info.boot_id = self.boot_id;
  info.protocol_min = self.protocol_min;
  info.protocol_max = self.protocol_max;
  info.version = self.version;
  info.since = parts_.context.started;
  info.uid_domain = self.uid_domain;
  info.capabilities = *self.capabilities;
  const Options& options = parts_.context.options;
  if (options.expiries) info.expiries = options.expiries();
  return info;
}

void ClientFront::GetNode(const Principal&, std::string name, Reply<NodeInfo> reply) {
  if (!parts_.context.IsSelf(name)) {
    Result<NodeInfo> peer = parts_.peers.Describe(name);
    if (peer.ok()) AddProbes(*peer);
    return reply(std::move(peer));
  }
  parts_.catalog.Refresh();
  NodeInfo self = DescribeSelf();
  AddProbes(self);
  reply(std::move(self));
}

void ClientFront::AddProbes(NodeInfo& node) const {
  node.probes = parts_.probes.Describe(node.name);
  node.slow_transfers = parts_.probes.slow_transfers(node.name);
  node.path_rates = parts_.path_rates.Describe(node.name);
}

void ClientFront::ProbeNode(const Principal& who, std::string name,
                            Reply<std::vector<ProbeInfo>> reply) {
  parts_.probes.ProbeNode(name, who.administrator, std::move(reply));
}

void ClientFront::ListNodes(const Principal&, PageRequest page, Reply<Page<NodeInfo>> reply) {
  std::vector<NodeInfo> nodes = parts_.peers.Describe();
  nodes.insert(nodes.begin(), DescribeSelf());
  // This node sorts before every name.
  reply(TakePage<NodeInfo>(
      page, nodes, [](const NodeInfo& node) { return node.self ? std::string(" ") : node.name; },
      [](const NodeInfo&) { return true; }, [](const NodeInfo& node) { return node; }));
}

void ClientFront::ReleaseDevice(const Principal& who, std::string device, StatusReply reply) {
  if (!who.administrator) return reply(AdministratorsOnly("releasing a device"));
  Status unknown(Code::kNotFound, reasons::kDeviceNotFound,
                 "node " + parts_.context.node() + " has no device \"" + Printable(device) + "\"",
                 "onecopy node show lists them");
  for (Memory* memory : parts_.context.memories) {
    Result<std::string> uuid = memory->FindDevice(device);
    if (!uuid.ok()) {
      if (device.starts_with(memory->kind())) unknown = uuid.status();
      continue;
    }
    const std::string worker = uuid->empty() ? memory->kind() : *uuid;
    auto shared = std::make_shared<StatusReply>(std::move(reply));
    return parts_.context.workers.Run<bool>(
        worker,
        [memory, uuid = *uuid]() -> Result<bool> {
          ONECOPY_RETURN_IF_ERROR(memory->CloseDevice(uuid));
          return true;
        },
        [shared](const Result<bool>& closed) { (*shared)(closed.status()); });
  }
  reply(unknown);
}

void ClientFront::SetLogLevel(const Principal& who, std::string level, Reply<std::string> reply) {
  if (!who.administrator) return reply(AdministratorsOnly("changing the log level"));
  reply(parts_.context.options.set_log_level(level));
}

}  // namespace onecopy::engine
