#include "daemon/engine/transfers/orders.h"

#include <xxhash.h>

#include <utility>

#include "daemon/engine/base/names.h"
#include "transport/core/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::engine {
namespace {

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
  content += request.policy.client_file ? " file" : "";
  content += " " + request.part_of.str();
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
  os::Clock::time_point begun = os::Clock::now();
  os::EventLoop::TimerId deadline_timer = 0;
  std::string waits_for;
  bool given_up = false;

  // What is left of its deadline, if it has one.
  std::optional<std::chrono::milliseconds> Remaining() const {
    if (!request.deadline) return std::nullopt;
    const auto passed =
        std::chrono::duration_cast<std::chrono::milliseconds>(os::Clock::now() - begun);
    return std::max(*request.deadline - passed, std::chrono::milliseconds(1));
  }
};

void Orders::Create(const Principal& who, TransferRequest request, Reply<TransferInfo> reply) {
  Status wrong = CheckEnd(request.source, "source");
  if (wrong.ok()) wrong = CheckEnd(request.destination, "destination");
  if (request.deadline && request.deadline->count() <= 0) {
    wrong = {Code::kInvalidArgument, reasons::kBadArgument, "a deadline that has passed already"};
  }
  // What has begun may end.
  if (context_.draining && !request.validate_only && request.part_of.empty()) {
    wrong = {Code::kUnavailable, reasons::kDraining,
             "node " + context_.node() + " is shutting down and takes no new transfers"};
  }
  if (!wrong.ok()) return reply(wrong);
  for (Endpoint* end : {&request.source, &request.destination}) {
    if (end->node.empty()) end->node = context_.node();
  }

  auto order = std::make_shared<Order>();
  order->who = who;
  order->request = std::move(request);
  order->id = NewTransferId();
  if (!order->request.validate_only) {
    auto shared = std::make_shared<Reply<TransferInfo>>(std::move(reply));
    auto again = [this, shared, request = order->request.request_id](Result<TransferId> made) {
      if (!made.ok()) return (*shared)(made.status());
      const TransferRecord* record = transfers_.Find(*made);
      if (record != nullptr) return (*shared)(record->info);
      (*shared)(RequestLog<TransferId>::Forgotten(request));
    };
    auto seen = requests_.Begin(OwnerOf(who), who.administrator, order->request.request_id,
                                Content(order->request), again);
    if (!seen.ok()) return (*shared)(seen.status());
    if (seen->action == RequestLog<TransferId>::Action::kWait) return;
    if (seen->action == RequestLog<TransferId>::Action::kRepeat) return again(*seen->made);
    reply = [shared](Result<TransferInfo> info) { (*shared)(std::move(info)); };
    order->reply = std::move(reply);
    if (!order->request.part_of.empty()) {
      const Status adopted = series_.Adopt(who, order->request, order->id);
      if (!adopted.ok()) return Refuse(*order, adopted);
    }
  } else {
    order->reply = std::move(reply);
  }
  KeepDeadline(order);
  Reserve(std::move(order));
}

void Orders::KeepDeadline(const std::shared_ptr<Order>& order) {
  if (!order->request.deadline) return;
  order->deadline_timer =
      context_.loop.RunAfter(*order->request.deadline, [this, order] { GiveUp(order); });
}

// What the other nodes still answer is of no use any more; a transfer that one of them has started
// meanwhile is ended when it says so.
void Orders::GiveUp(const std::shared_ptr<Order>& order) {
  order->deadline_timer = 0;
  const Status late(Code::kDeadlineExceeded, reasons::kDeadline,
                    "the transfer did not begin within its deadline of " +
                        std::to_string(order->request.deadline->count()) + " ms: it waited for " +
                        order->waits_for,
                    "allow more time with a later deadline");
  Conclude(order, late);
  order->given_up = true;
}

void Orders::CancelStarted(const Order& order) {
  if (order.request.validate_only) return;
  const Result<PeerApi*> destination = nodes_.Find(order.request.destination.node);
  if (!destination.ok()) return;  // it has the deadline, too
  (*destination)->Cancel(context_.node(), order.who.uid, order.id, [](const Result<TransferInfo>&) {
  });
}

TransferRole Orders::RoleHere(const TransferRequest& asked) const {
  if (context_.IsSelf(asked.destination.node)) return TransferRole::kDestination;
  return context_.IsSelf(asked.source.node) ? TransferRole::kSource : TransferRole::kOrderer;
}

void Orders::Reserve(std::shared_ptr<Order> order) {
  const std::string& node = order->request.source.node;
  order->waits_for = "node " + node + " to say whether the source may be read";
  nodes_.WhenConnected(node, [this, order](Result<PeerApi*> source) {
    if (order->given_up) return;
    if (!source.ok()) return Conclude(order, source.status());
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
    (*source)->Reserve(context_.node(), std::move(request),
                       [this, order](Result<Reservation> reservation) {
                         if (order->given_up) return;
                         if (!reservation.ok()) return Conclude(order, reservation.status());
                         StartAt(order, std::move(*reservation));
                       });
  });
}

void Orders::StartAt(std::shared_ptr<Order> order, Reservation reservation) {
  const std::string& node = order->request.destination.node;
  order->waits_for = "node " + node + " to plan and start the transfer";
  nodes_.WhenConnected(node, [this, order, node, reservation = std::move(reservation)](
                                 Result<PeerApi*> destination) mutable {
    if (order->given_up) return;
    if (!destination.ok()) return Conclude(order, destination.status());
    const TransferRequest& asked = order->request;
    if (!asked.validate_only && !context_.IsSelf(node)) {
      // Before the destination hears of it, since its reports may be quicker than its answer.
      TransferInfo info;
      info.id = order->id;
      info.role = RoleHere(asked);
      info.source = reservation.source;
      info.destination = asked.destination;
      info.bytes = asked.ranges == nullptr ? reservation.source.bytes.value_or(0)
                                           : asked.ranges->source.bytes();
      info.owner = order->who.ToString();
      info.create_time = std::chrono::system_clock::now();
      info.part_of = asked.part_of;
      Result<Quota::Charge> charge =
          transfers_.Take(OwnerOf(order->who), context_.node(), order->who.administrator);
      if (!charge.ok()) return Conclude(order, charge.status());
      Result<TransferRecord*> record =
          transfers_.Add(std::move(info), OwnerOf(order->who), context_.node(), std::move(*charge));
      if (!record.ok()) return Conclude(order, record.status());
      order->recorded = true;
      mirrors_.Await(**record, node, order->Remaining());
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
    request.deadline = order->Remaining();
    request.validate_only = asked.validate_only;
    if (!asked.part_of.empty()) request.series = series_.Find(asked.part_of);
    (*destination)
        ->Start(context_.node(), std::move(request), [this, order](Result<TransferInfo> started) {
          if (!order->given_up) return Conclude(order, std::move(started));
          if (started.ok()) CancelStarted(*order);
        });
  });
}

void Orders::Conclude(const std::shared_ptr<Order>& order, Result<TransferInfo> outcome) {
  context_.loop.CancelTimer(std::exchange(order->deadline_timer, 0));
  const Owner who = OwnerOf(order->who);
  if (!outcome.ok()) {
    if (order->recorded) {
      mirrors_.Drop(order->id);
      transfers_.Drop(order->id);
    }
    series_.Refused(order->request.part_of, order->id);
    return Refuse(*order, outcome.status());
  }
  if (order->request.validate_only) {
    outcome->role = RoleHere(order->request);
    return order->reply(std::move(outcome));
  }
  TransferRecord* record = transfers_.Find(order->id);
  if (record == nullptr) {  // it has ended since, and no more of those are kept
    requests_.Conclude(who, order->request.request_id, order->id);
    return order->reply(std::move(outcome));
  }
  if (order->recorded && record->info.state == TransferState::kPending) {
    record->info.destination = outcome->destination;
    record->info.plan = outcome->plan;
    transfers_.Changed(*record);
  }
  if (order->recorded) mirrors_.AskWhenSilent(order->id);
  series_.Started(*record);
  requests_.Conclude(who, order->request.request_id, order->id);
  order->reply(record->info);
}

void Orders::Refuse(Order& order, const Status& why) {
  requests_.Conclude({order.who.uid, order.who.node}, order.request.request_id, why);
  order.reply(why);
}

}  // namespace onecopy::engine
