#include "daemon/engine/client_service.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/engine/base/paging.h"
#include "daemon/log/audit.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// What is waited for before the caller hears that its transfer was made, and how long.
constexpr uint64_t kSmallBytes = 64 * 1024;
constexpr std::chrono::milliseconds kSmallPatience{2};

Status AdministratorsOnly(const std::string& what) {
  return {Code::kPermissionDenied, reasons::kNotOwner, what + " is only for administrators",
          "ask as the user that onecopyd runs as, or as root"};
}

}  // namespace

void ClientService::CreateTransfer(const Principal& who, TransferRequest request,
                                   RangeGroups ranges, Reply<TransferInfo> reply) {
  if (!request.validate_only) {
    reply = [this, reply = std::move(reply)](Result<TransferInfo> made) mutable {
      if (!made.ok()) needs_.tally.NoteRefused(made.status());
      reply(std::move(made));
    };
  }
  // A buffer is a file only if its client passed a descriptor; without a buffer it is a file of
  // that node.
  for (Endpoint* end : {&request.source, &request.destination}) {
    if (!end->buffer.empty() && end->fd_handle == 0) end->file.clear();
  }
  if (!Files::HasFile(request)) {
    return Order(who, std::move(request), std::move(ranges), std::move(reply));
  }
  needs_.files.Open(who, std::move(request),
                    [this, who, ranges = std::move(ranges),
                     reply = std::move(reply)](Result<TransferRequest> opened) mutable {
                      if (!opened.ok()) return reply(opened.status());
                      Order(who, *opened, std::move(ranges),
                            [this, request = *opened,
                             reply = std::move(reply)](Result<TransferInfo> made) mutable {
                              SettleFile(request, made);
                              reply(std::move(made));
                            });
                    });
}

void ClientService::SettleFile(const TransferRequest& opened, const Result<TransferInfo>& made) {
  const bool later =
      made.ok() && !made->id.empty() && !needs_.context.IsSelf(made->destination.node);
  if (!later) return needs_.files.Settle(opened);
  const auto watch = needs_.transfers.Watch(
      made->id,
      [this, opened](const TransferInfo& info) {
        if (IsFinal(info.state)) needs_.files.Settle(opened);
      },
      false);
  if (!watch.ok()) needs_.files.Settle(opened);
}

void ClientService::Order(const Principal& who, TransferRequest request, RangeGroups ranges,
                          Reply<TransferInfo> reply) {
  if (request.validate_only)
    return needs_.orders.Create(who, std::move(request), std::move(ranges), std::move(reply));
  needs_.orders.Create(who, std::move(request), std::move(ranges),
                       [this, reply = std::move(reply)](Result<TransferInfo> made) mutable {
                         AnswerSmall(std::move(made), std::move(reply));
                       });
}

// A second call, to hear of the end, would take longer than a small transfer inside the node does.
void ClientService::AnswerSmall(Result<TransferInfo> made, Reply<TransferInfo> reply) {
  const bool soon = made.ok() && !IsFinal(made->state) && made->bytes <= kSmallBytes &&
                    needs_.context.IsSelf(made->source.node) &&
                    needs_.context.IsSelf(made->destination.node);
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
    needs_.context.loop.CancelTimer(waiting->timer);
    if (waiting->reply) std::exchange(waiting->reply, nullptr)(std::move(waiting->now));
  };
  waiting->timer = needs_.context.loop.RunAfter(kSmallPatience, [this, waiting, answer] {
    needs_.transfers.Unwatch(waiting->watch);
    answer();
  });
  const auto watch = needs_.transfers.Watch(id, [waiting, answer](const TransferInfo& info) {
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

Result<TransferRecord*> ClientService::FindTransfer(const Principal& who, const TransferId& id) {
  if (needs_.transfers.Find(id) == nullptr) needs_.rings.File(id);
  TransferRecord* record = needs_.transfers.Find(id);
  if (record != nullptr && needs_.owners.Owns(who, record->owner)) return record;
  if (record != nullptr) {
    const std::string asking = who.ToString();
    const std::string from = needs_.sessions.Describe(who.session);
    audit::Write({.who = asking,
                  .from = from,
                  .what = "see a transfer",
                  .on = id.str(),
                  .why = {Code::kPermissionDenied, reasons::kNotOwner,
                          "it belongs to " + record->owner.ToString()}});
  }
  // A user that may not see it learns nothing, not even that it exists.
  return Status(Code::kNotFound, reasons::kTransferNotFound,
                "node " + needs_.context.node() + " does not know a transfer " +
                    Printable(id.str()) + " of yours",
                "onecopy transfer ls lists those it knows");
}

void ClientService::GetTransfer(const Principal& who, TransferId id, Reply<TransferInfo> reply) {
  Result<TransferRecord*> record = FindTransfer(who, id);
  if (!record.ok()) return reply(record.status());
  reply((*record)->info);
}

void ClientService::ListTransfers(const Principal& who, PageRequest page,
                                  Reply<Page<TransferInfo>> reply) {
  needs_.rings.FileAll();
  reply(needs_.transfers.List(page, who, needs_.owners));
}

Result<ClientApi::WatchId> ClientService::WatchTransfer(
    const Principal& who, const TransferId& id, std::function<void(const TransferInfo&)> update) {
  ONECOPY_ASSIGN_OR_RETURN(TransferRecord* const record, FindTransfer(who, id));
  return needs_.transfers.Watch(record->info.id, std::move(update));
}

void ClientService::Unwatch(WatchId watch) { needs_.transfers.Unwatch(watch); }

void ClientService::CancelTransfer(const Principal& who, TransferId id, Reply<TransferInfo> reply) {
  Result<TransferRecord*> record = FindTransfer(who, id);
  if (!record.ok()) return reply(record.status());
  if (IsFinal((*record)->info.state)) return reply((*record)->info);
  const Result<PeerApi*> decider = needs_.nodes.Find(needs_.remote_transfers.DecidedBy(id));
  if (!decider.ok()) return reply(decider.status());
  (*decider)->Cancel(needs_.context.node(), who.uid, id, std::move(reply));
}

void ClientService::OpenSeries(const Principal& who, SeriesRequest request,
                               Reply<TransferInfo> reply) {
  reply(needs_.series.Open(who, std::move(request)));
}

void ClientService::EndSeries(const Principal& who, SeriesEnd end, Reply<TransferInfo> reply) {
  reply(needs_.series.End(who, end));
}

// Whether that is another node: then it has been asked, or `reply` says why it cannot be.
template <typename T, typename Ask>
bool ClientService::AskedElsewhere(const std::string& node, Reply<T>& reply, const Ask& ask) {
  if (needs_.context.IsSelf(node)) return false;
  const Result<PeerApi*> peer = needs_.peers.Find(node);
  if (peer.ok()) {
    ask(**peer);
  } else {
    reply(peer.status());
  }
  return true;
}

void ClientService::CreateBuffer(const Principal& who, CreateBufferRequest request,
                                 Reply<BufferInfo> reply) {
  const std::string node = request.node;
  const bool asked = AskedElsewhere(node, reply, [&](PeerApi& peer) {
    peer.CreateBuffer(needs_.context.node(), who.uid, std::move(request), std::move(reply));
  });
  if (asked) return;
  needs_.maker.Create(who, request, std::move(reply));
}

void ClientService::RegisterBuffer(const Principal& who, RegisterBufferRequest request,
                                   Reply<BufferInfo> reply) {
  needs_.maker.Register(who, request, std::move(reply));
}

void ClientService::CreateViews(const Principal& who, std::vector<ViewRequest> views,
                                Reply<std::vector<BufferInfo>> reply) {
  reply(needs_.views.Create(who, views));
}

void ClientService::GetBuffer(const Principal& who, std::string node, std::string name,
                              Reply<BufferInfo> reply) {
  const bool asked = AskedElsewhere(node, reply, [&](PeerApi& peer) {
    peer.GetBuffer(needs_.context.node(), who.uid, std::move(name), std::move(reply));
  });
  if (asked) return;
  Result<Buffer*> buffer = needs_.grants.FindKnown(needs_.buffers, who, name);
  if (!buffer.ok()) return reply(buffer.status());
  if (!needs_.grants.Sees(who, **buffer)) {
    return reply(
        Status(Code::kPermissionDenied, reasons::kNotOwner,
               "buffer \"" + (*buffer)->name + "\" belongs to " + (*buffer)->owner.ToString(),
               "its owner can allow you to use it: onecopy grant add"));
  }
  reply(needs_.buffers.Describe(**buffer));
}

void ClientService::ListBuffers(const Principal& who, std::string node, PageRequest page,
                                Reply<Page<BufferInfo>> reply) {
  const bool asked = AskedElsewhere(node, reply, [&](PeerApi& peer) {
    peer.ListBuffers(needs_.context.node(), who.uid, std::move(page), std::move(reply));
  });
  if (asked) return;
  reply(needs_.inventory.BuffersSeenBy(who, page));
}

void ClientService::DeleteBuffer(const Principal& who, std::string node, std::string name,
                                 bool force, StatusReply reply) {
  if (needs_.context.IsSelf(node)) return needs_.removal.Remove(who, name, force, std::move(reply));
  const Result<PeerApi*> peer = needs_.peers.Find(node);
  if (!peer.ok()) return reply(peer.status());
  (*peer)->DeleteBuffer(needs_.context.node(), who.uid, std::move(name), force, std::move(reply));
}

void ClientService::SumBuffer(const Principal& who, SumRequest request, Reply<BufferSum> reply) {
  const bool asked = AskedElsewhere(request.range.node, reply, [&](PeerApi& peer) {
    peer.SumBuffer(needs_.context.node(), who.uid, std::move(request), std::move(reply));
  });
  if (asked) return;
  needs_.inventory.SumOf(who, request, std::move(reply));
}

void ClientService::CreateGrant(const Principal& who, CreateGrantRequest request,
                                Reply<GrantInfo> reply) {
  if (!needs_.context.IsSelf(request.range.node)) {
    return reply(Status(Code::kInvalidArgument, reasons::kBadEndpoint,
                        "only the buffer's own node can make a grant: " + request.range.node));
  }
  Result<Buffer*> buffer = needs_.removal.FindOwn(who, request.range.buffer);
  if (!buffer.ok()) return reply(buffer.status());
  Result<ByteRange> range =
      ResolveRange(request.range, (*buffer)->bytes, "buffer \"" + (*buffer)->name + "\"");
  if (!range.ok()) return reply(range.status());
  Result<Owner> to = ParseOwner(request.to, needs_.context.node());
  if (!to.ok()) return reply(to.status());
  reply(needs_.grants.Create(who, **buffer, *range, *to, request.read, request.write,
                             request.lifetime));
}

void ClientService::ListGrants(const Principal& who, std::string node, std::string buffer,
                               PageRequest page, Reply<Page<GrantInfo>> reply) {
  if (!needs_.context.IsSelf(node)) {
    if (!buffer.empty()) {
      return reply(Status(Code::kInvalidArgument, reasons::kBadArgument,
                          "only the buffer's own node can list the grants on it",
                          "leave out the buffer, or ask on node " + node));
    }
    AskedElsewhere(node, reply, [&](PeerApi& peer) {
      peer.ListGrants(needs_.context.node(), who.uid, std::move(page), std::move(reply));
    });
    return;
  }
  if (!buffer.empty()) {
    Result<Buffer*> found = needs_.removal.FindOwn(who, buffer);
    if (!found.ok()) return reply(found.status());
    return reply(needs_.grants.List(page, {(*found)->id}));
  }
  if (who.administrator) return reply(needs_.grants.ListAll(page));
  reply(needs_.inventory.GrantsOf(who, page));
}

void ClientService::DeleteGrant(const Principal& who, GrantId id, StatusReply reply) {
  const Grants::Grant* grant = needs_.grants.Find(id);
  const Buffer* buffer = grant == nullptr ? nullptr : needs_.buffers.FindById(grant->buffer);
  if (buffer == nullptr || !needs_.owners.Owns(who, buffer->owner)) {
    if (buffer != nullptr) {
      const std::string asking = who.ToString();
      const std::string from = needs_.sessions.Describe(who.session);
      audit::Write({.who = asking,
                    .from = from,
                    .what = "DeleteGrant",
                    .on = id.str(),
                    .why = {Code::kPermissionDenied, reasons::kNotOwner,
                            "it was given by " + buffer->owner.ToString()}});
    }
    return reply(
        {Code::kNotFound, reasons::kGrantNotFound,
         "you have made no grant " + Printable(id.str()) + " on node " + needs_.context.node(),
         "onecopy grant ls lists the grants you have made"});
  }
  needs_.grants.Delete(id,
                       {Code::kPermissionDenied, reasons::kNotOwner,
                        "the right to buffer \"" + buffer->name + "\" was revoked by its owner"});
  // Small transfers of other nodes read without asking: until that has ended, the right has not.
  needs_.openings.WhenReleased(id, [this, id, reply = std::move(reply)]() mutable {
    needs_.mappings.WhenReleased(id, [reply = std::move(reply)]() mutable { reply(OkStatus()); });
  });
}

Result<ClientApi::WatchId> ClientService::WatchArrivals(const Principal& who,
                                                        const std::string& buffer,
                                                        std::function<void()> news) {
  if (buffer.empty()) return needs_.arrivals.Watch(who, std::nullopt, std::move(news));
  ONECOPY_ASSIGN_OR_RETURN(const Buffer* const own, needs_.removal.FindOwn(who, buffer));
  return needs_.arrivals.Watch(who, own->id, std::move(news));
}

ArrivalsTold ClientService::TakeArrivals(WatchId watch) { return needs_.arrivals.Take(watch); }

void ClientService::UnwatchArrivals(WatchId watch) { needs_.arrivals.Unwatch(watch); }

void ClientService::AcknowledgeArrivals(const Principal& who, WatchId watch, uint64_t count,
                                        StatusReply reply) {
  reply(needs_.arrivals.Acknowledge(who, watch, count));
}

void ClientService::SendMessage(const Principal& who, MessageRequest request, StatusReply reply) {
  const Endpoint& to = request.destination;
  if (to.offset_bytes || to.bytes || !to.file.empty()) {
    return reply({Code::kInvalidArgument, reasons::kBadEndpoint,
                  "a message needs a whole buffer, not " + Printable(to.ToString()),
                  "leave out the range"});
  }
  const std::string node = to.node;
  needs_.nodes.WhenConnected(
      node, [this, message = PeerMessage{who.uid, who.administrator, std::move(request)},
             reply = std::move(reply)](const Result<PeerApi*>& peer) mutable {
        if (!peer.ok()) return reply(peer.status());
        (*peer)->SendMessage(needs_.context.node(), std::move(message), std::move(reply));
      });
}

NodeInfo ClientService::DescribeSelf() const {
  const Introduction self = needs_.peers.Introduce();
  NodeInfo info;
  info.name = self.node;
  info.self = true;
  info.state = self.draining ? NodeState::kDraining : NodeState::kConnected;
  info.address = self.address;
  info.boot_id = self.boot_id;
  info.protocol_min = self.protocol_min;
  info.protocol_max = self.protocol_max;
  info.version = self.version;
  info.since = self.draining ? needs_.context.draining_since : needs_.context.started;
  if (self.draining) {
    info.reason = reasons::kDraining;
    info.detail = needs_.context.Draining().message() + "; " +
                  std::to_string(needs_.transfers.running()) + " still run";
  }
  info.uid_domain = self.uid_domain;
  info.capabilities = *self.capabilities;
  const Options& options = needs_.context.options;
  if (options.expiries) info.expiries = options.expiries();
  if (options.metrics) info.metrics = options.metrics();
  info.conflicts = needs_.peers.conflicts();
  if (options.discovery) {
    DiscoveryState discovery = options.discovery();
    info.discovery = std::move(discovery.info);
    AddConflicts(std::move(discovery.conflicts), info.conflicts);
  }
  return info;
}

void ClientService::GetNode(const Principal& who, std::string name, Reply<NodeInfo> reply) {
  constexpr size_t kMostAccounts = 100;
  if (!needs_.context.IsSelf(name)) {
    Result<NodeInfo> peer = needs_.peers.Describe(name);
    if (peer.ok()) AddProbes(*peer);
    return reply(std::move(peer));
  }
  needs_.catalog.Refresh();
  NodeInfo self = DescribeSelf();
  AddProbes(self);
  if (who.administrator) self.accounts = needs_.context.ledger.Describe(kMostAccounts);
  reply(std::move(self));
}

void ClientService::AddProbes(NodeInfo& node) const {
  node.probes = needs_.probes.Describe(node.name);
  node.slow_transfers = needs_.probes.slow_transfers(node.name);
  node.path_rates = needs_.path_rates.Describe(node.name);
  node.silent_addresses = needs_.connections.SilentAddresses(node.name);
}

void ClientService::ProbeNode(const Principal& who, std::string name,
                              Reply<std::vector<ProbeInfo>> reply) {
  needs_.probes.ProbeNode(name, who.administrator, std::move(reply));
}

void ClientService::ListNodes(const Principal&, PageRequest page, Reply<Page<NodeInfo>> reply) {
  std::vector<NodeInfo> nodes = needs_.peers.Describe();
  nodes.insert(nodes.begin(), DescribeSelf());
  // This node sorts before every name.
  reply(TakePage<NodeInfo>(
      page, nodes, [](const NodeInfo& node) { return node.self ? std::string(" ") : node.name; },
      [](const NodeInfo&) { return true; }, [](const NodeInfo& node) { return node; }));
}

void ClientService::ListExports(const Principal& who, std::string node, PageRequest page,
                                Reply<Page<ExportInfo>> reply) {
  const bool asked = AskedElsewhere(node, reply, [&](PeerApi& peer) {
    peer.ListExports(needs_.context.node(), who.uid, std::move(page), std::move(reply));
  });
  if (asked) return;
  reply(needs_.exports.SeenBy(who, page));
}

void ClientService::ReleaseDevice(const Principal& who, std::string device, StatusReply reply) {
  if (!who.administrator) return reply(AdministratorsOnly("releasing a device"));
  Status unknown(Code::kNotFound, reasons::kDeviceNotFound,
                 "node " + needs_.context.node() + " has no device \"" + Printable(device) + "\"",
                 "onecopy node show lists them");
  for (Memory* memory : needs_.context.memories) {
    Result<std::string> uuid = memory->FindDevice(device);
    if (!uuid.ok()) {
      if (device.starts_with(memory->kind())) unknown = uuid.status();
      continue;
    }
    const std::string worker = uuid->empty() ? memory->kind() : *uuid;
    auto shared = std::make_shared<StatusReply>(std::move(reply));
    return needs_.context.workers.Run<bool>(
        worker,
        [memory, uuid = *uuid]() -> Result<bool> {
          ONECOPY_RETURN_IF_ERROR(memory->CloseDevice(uuid));
          return true;
        },
        [shared](const Result<bool>& closed) { (*shared)(closed.status()); });
  }
  reply(unknown);
}

void ClientService::SetLogLevel(const Principal& who, std::string level, Reply<std::string> reply) {
  if (!who.administrator) return reply(AdministratorsOnly("changing the log level"));
  reply(needs_.context.options.set_log_level(level));
}

void ClientService::SetDraining(const Principal& who, bool draining, bool wait,
                                Reply<uint64_t> reply) {
  if (!who.administrator) return reply(AdministratorsOnly("draining the node"));
  needs_.drain.Set(draining, wait, std::move(reply));
}

}  // namespace onecopy::engine
