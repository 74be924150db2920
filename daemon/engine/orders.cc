#include "daemon/engine/orders.h"

#include <xxhash.h>

#include <utility>

#include "daemon/engine/context.h"
#include "daemon/engine/mirrors.h"
#include "daemon/engine/names.h"
#include "daemon/engine/peers.h"
#include "daemon/engine/transfers.h"
#include "transport/core/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::engine {
namespace {

constexpr size_t kIdBytes = 8;

void Append(const Layout& layout, std::string* text) {
  const std::vector<StridedRange>& pieces = layout.pieces();
  text->append(reinterpret_cast<const char*>(&layout.extent()), sizeof layout.extent());
  text->append(reinterpret_cast<const char*>(pieces.data()), pieces.size() * sizeof pieces[0]);
}

std::string Digest(const Scatter& ranges) {
  std::string text;
  Append(ranges.source, &text);
  Append(ranges.destination, &text);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return std::to_string(hash.high64) + "-" + std::to_string(hash.low64);
}

// What makes two requests the same.
std::string Content(const TransferRequest& request) {
  std::string content = request.source.ToString() + " " + request.destination.ToString() + " " +
                        request.policy.path_glob + " " + request.policy.link + " ";
  content += request.policy.at_most_copies ? std::to_string(*request.policy.at_most_copies) : "any";
  content += request.policy.allow_emulated ? " emulated" : "";
  content += request.checksum ? " checksum" : "";
  if (request.ranges != nullptr) content += " ranges " + Digest(*request.ranges);
  return content + (request.deadline ? " " + std::to_string(request.deadline->count()) : "");
}

Status CheckEnd(const Endpoint& end, const char* which) {
  if (!end.node.empty()) ONECOPY_RETURN_IF_ERROR(CheckName(end.node, "node"));
  if (!end.buffer.empty()) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadEndpoint,
          std::string("the ") + which + " names no buffer"};
}

}  // namespace

struct Orders::Order {
  Principal who;
  TransferRequest request;
  TransferId id;
  Reply<TransferInfo> reply;
  bool recorded = false;  // this node has a record of it, because another one decides it
};

void Orders::Create(const Principal& who, TransferRequest request, Reply<TransferInfo> reply) {
  Status wrong = CheckEnd(request.source, "source");
  if (wrong.ok()) wrong = CheckEnd(request.destination, "destination");
  if (request.deadline && request.deadline->count() <= 0) {
    wrong = {Code::kInvalidArgument, reasons::kBadArgument, "a deadline that has passed already"};
  }
  if (parts_.context.draining && !request.validate_only) {
    wrong = {Code::kUnavailable, reasons::kDraining,
             "node " + parts_.context.node() + " is shutting down and takes no new transfers"};
  }
  if (!wrong.ok()) return reply(wrong);
  for (Endpoint* end : {&request.source, &request.destination}) {
    if (end->node.empty()) end->node = parts_.context.node();
  }

  auto order = std::make_shared<Order>();
  order->who = who;
  order->request = std::move(request);
  order->id = TransferId(os::RandomHex(kIdBytes));
  if (!order->request.validate_only) {
    auto shared = std::make_shared<Reply<TransferInfo>>(std::move(reply));
    auto again = [this, shared](Result<TransferId> made) {
      if (!made.ok()) return (*shared)(made.status());
      const TransferRecord* record = parts_.transfers.Find(*made);
      if (record != nullptr) return (*shared)(record->info);
      (*shared)(Status(Code::kNotFound, reasons::kTransferNotFound,
                       "the transfer that this request made has been forgotten since"));
    };
    auto seen = requests_.Begin({who.uid, who.node}, order->request.request_id,
                                Content(order->request), again);
    if (!seen.ok()) return (*shared)(seen.status());
    if (seen->action == RequestLog<TransferId>::Action::kWait) return;
    if (seen->action == RequestLog<TransferId>::Action::kRepeat) return again(*seen->made);
    reply = [shared](Result<TransferInfo> info) { (*shared)(std::move(info)); };
  }
  order->reply = std::move(reply);
  Reserve(std::move(order));
}

void Orders::Reach(const std::string& node, Reply<PeerApi*> reply) {
  if (parts_.context.IsSelf(node)) return reply(&self_);
  parts_.peers.WhenConnected(node, std::move(reply));
}

Status Orders::CheckTakesRanges(const Order& order, const std::string& node) const {
  const bool able = order.request.ranges == nullptr || parts_.context.IsSelf(node) ||
                    parts_.peers.Speaks(node, kProtocolWithRanges);
  if (able) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kPeerIncompatible,
          "node " + node + " runs a version that moves no ranges in one transfer",
          "update it, or move each range by itself"};
}

void Orders::Reserve(std::shared_ptr<Order> order) {
  const std::string& node = order->request.source.node;
  Reach(node, [this, order, node](Result<PeerApi*> source) {
    if (!source.ok()) return Conclude(order, source.status());
    if (Status able = CheckTakesRanges(*order, node); !able.ok()) return Conclude(order, able);
    ReserveRequest request;
    request.id = order->id;
    request.uid = order->who.uid;
    request.administrator = order->who.administrator;
    request.destination_node = order->request.destination.node;
    request.source = order->request.source;
    if (order->request.ranges != nullptr) {
      request.ranges = {order->request.ranges, &order->request.ranges->source};
    }
    request.validate_only = order->request.validate_only;
    (*source)->Reserve(parts_.context.node(), std::move(request),
                       [this, order](Result<Reservation> reservation) {
                         if (!reservation.ok()) return Conclude(order, reservation.status());
                         StartAt(order, std::move(*reservation));
                       });
  });
}

void Orders::StartAt(std::shared_ptr<Order> order, Reservation reservation) {
  const std::string& node = order->request.destination.node;
  Reach(node, [this, order, node,
               reservation = std::move(reservation)](Result<PeerApi*> destination) mutable {
    if (!destination.ok()) return Conclude(order, destination.status());
    if (Status able = CheckTakesRanges(*order, node); !able.ok()) return Conclude(order, able);
    const TransferRequest& asked = order->request;
    if (!asked.validate_only && !parts_.context.IsSelf(node)) {
      // Before the destination hears of it, since its reports may be quicker than its answer.
      TransferInfo info;
      info.id = order->id;
      info.role =
          parts_.context.IsSelf(asked.source.node) ? TransferRole::kSource : TransferRole::kOrderer;
      info.source = reservation.source;
      info.destination = asked.destination;
      info.bytes = asked.ranges == nullptr ? reservation.source.bytes.value_or(0)
                                           : asked.ranges->source.bytes();
      info.owner = order->who.ToString();
      info.create_time = std::chrono::system_clock::now();
      Result<TransferRecord*> record = parts_.transfers.Add(
          std::move(info), {order->who.uid, order->who.node}, parts_.context.node());
      if (!record.ok()) return Conclude(order, record.status());
      order->recorded = true;
      parts_.mirrors.Await(**record, node, asked.deadline);
    }
    StartRequest request;
    request.id = order->id;
    request.uid = order->who.uid;
    request.administrator = order->who.administrator;
    request.reservation = std::move(reservation);
    request.destination = asked.destination;
    request.ranges = asked.ranges;
    request.policy = asked.policy;
    request.checksum = asked.checksum;
    request.deadline = asked.deadline;
    request.validate_only = asked.validate_only;
    (*destination)
        ->Start(
            parts_.context.node(), std::move(request),
            [this, order](Result<TransferInfo> started) { Conclude(order, std::move(started)); });
  });
}

void Orders::Conclude(const std::shared_ptr<Order>& order, Result<TransferInfo> outcome) {
  const Owner who{order->who.uid, order->who.node};
  if (!outcome.ok()) {
    if (order->recorded) {
      parts_.mirrors.Drop(order->id);
      parts_.transfers.Drop(order->id);
    }
    requests_.Conclude(who, order->request.request_id, outcome.status());
    return order->reply(outcome.status());
  }
  if (order->request.validate_only) return order->reply(std::move(outcome));
  TransferRecord* record = parts_.transfers.Find(order->id);
  if (record == nullptr) {
    return order->reply(
        Status(Code::kInternal, reasons::kInternal, "the transfer was started and then lost"));
  }
  if (order->recorded && record->info.state == TransferState::kPending) {
    record->info.destination = outcome->destination;
    record->info.plan = outcome->plan;
    parts_.transfers.Changed(*record);
  }
  if (order->recorded) parts_.mirrors.AskWhenSilent(order->id);
  requests_.Conclude(who, order->request.request_id, order->id);
  order->reply(record->info);
}

}  // namespace onecopy::engine
