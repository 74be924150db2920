#include "daemon/engine/transfers/coordinator.h"

#include <xxhash.h>

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/engine/peering/forgo.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

// Of a Start that failed so it is not known whether it has reached its node.
bool MayHaveBegun(const Status& failure) {
  return failure.code() == Code::kUnavailable || failure.code() == Code::kDeadlineExceeded ||
         failure.code() == Code::kCancelled;
}

void Append(const Layout& layout, XXH3_state_t* hash) {
  const std::span<const StridedRange> pieces = layout.unlike_pieces();
  const std::span<const uint64_t> offsets = layout.equal_offsets();
  const uint64_t each = layout.equal_bytes();
  XXH3_128bits_update(hash, &layout.extent(), sizeof layout.extent());
  XXH3_128bits_update(hash, &each, sizeof each);
  XXH3_128bits_update(hash, pieces.data(), pieces.size_bytes());
  XXH3_128bits_update(hash, offsets.data(), offsets.size_bytes());
}

std::string Digest(const std::string& text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return std::to_string(hash.high64) + "-" + std::to_string(hash.low64);
}

std::string Digest(const RangeGroups& ranges) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (const RangeGroup& group : ranges.groups) {
    const std::array<uint64_t, 4> numbers = {group.source, group.destination,
                                             group.ranges->source.size(),
                                             group.ranges->destination.size()};
    XXH3_128bits_update(state.get(), numbers.data(), sizeof numbers);
    Append(group.ranges->source, state.get());
    Append(group.ranges->destination, state.get());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return std::to_string(hash.high64) + "-" + std::to_string(hash.low64);
}

// Counts changes of what Content says: requests that versions of the daemon describe in different
// ways cannot be compared.
constexpr char kContentVersion[] = "1-";

// What makes two requests the same.
std::string Content(const TransferRequest& request, const RangeGroups& ranges) {
  std::string content = request.source.ToString() + " " + request.destination.ToString() + " " +
                        request.policy.path_glob + " " + request.policy.link + " ";
  content += request.policy.at_most_copies ? std::to_string(*request.policy.at_most_copies) : "any";
  content += request.policy.allow_emulated ? " emulated" : "";
  content += request.checksum ? " checksum" : "";
  content += request.sync ? " sync" : "";
  content += request.policy.client_file ? " file" : "";
  content += " " + request.part_of.str();
  if (request.pacing != Pacing()) {
    content += " paced " + std::to_string(request.pacing.rate_limit_bytes_per_second) + " " +
               std::string(NameOf(request.pacing.priority));
  }
  if (!request.message.empty()) {
    content += " message " + Digest(request.message);
  }
  for (const Endpoint& one : request.more_sources) content += " " + one.ToString();
  content += " to";
  for (const Endpoint& one : request.more_destinations) content += " " + one.ToString();
  if (!ranges.empty()) content += " ranges " + Digest(ranges);
  return content + (request.deadline ? " " + std::to_string(request.deadline->count()) : "");
}

Status CheckEnd(const Endpoint& end, std::string_view which) {
  if (!end.node.empty()) ONECOPY_RETURN_IF_ERROR(CheckName(end.node, "node"));
  if (!end.buffer.empty()) return OkStatus();
  if (!end.file.empty() && end.file != "-") return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadEndpoint,
          "the " + std::string(which) + " names no buffer"};
}

// Of files, whether a client has opened them or their nodes export them.
Status CheckFiles(const TransferRequest& request) {
  const bool reads = !request.source.file.empty();
  const bool writes = !request.destination.file.empty();
  if (reads && writes) {
    return {Code::kInvalidArgument, reasons::kBadEndpoint, "both ends are files",
            "copy the first file into a buffer, then the buffer into the other file"};
  }
  const bool several = !request.more_sources.empty() || !request.more_destinations.empty();
  if ((reads || writes) && (several || !request.part_of.empty())) {
    return {Code::kInvalidArgument, reasons::kBadEndpoint,
            "a file can be copied only from or to one buffer, not as part of a larger transfer",
            "copy it on its own"};
  }
  if (request.sync && (!writes || !request.destination.buffer.empty())) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "sync applies to a destination file, and the destination is not a file",
            "leave it out"};
  }
  return OkStatus();
}

// The others at an end whose first is `end`, whose node they get.
Status CompleteMore(const Endpoint& end, const char* which, std::vector<Endpoint>* more) {
  for (Endpoint& one : *more) {
    ONECOPY_RETURN_IF_ERROR(CheckEnd(one, which));
    if (!one.file.empty()) {
      return {Code::kInvalidArgument, reasons::kBadEndpoint,
              std::string("the ") + which + " names a file together with several buffers",
              "run one copy for each file"};
    }
    if (one.node.empty()) one.node = end.node;
    if (one.node == end.node) continue;
    return {Code::kInvalidArgument, reasons::kBadEndpoint,
            std::string("the ") + which + " is on node " + end.node + " and on node " + one.node,
            "request one transfer for each pair of nodes"};
  }
  return OkStatus();
}

// A request in which ranges of one pair of buffers alone are left becomes one of these two.
void TakeOnlyPair(TransferRequest* request, RangeGroups* ranges) {
  const RangeGroup& only = ranges->groups.front();
  if (only.source > 0) request->source = request->more_sources[only.source - 1];
  if (only.destination > 0) {
    request->destination = request->more_destinations[only.destination - 1];
  }
  request->more_sources.clear();
  request->more_destinations.clear();
}

const Endpoint& Nth(const Endpoint& first, const std::vector<Endpoint>& more, uint32_t number) {
  return number == 0 ? first : more[number - 1];
}

Status CheckBuffers(const TransferRequest& request, const RangeGroups& ranges) {
  const bool several = !request.more_sources.empty() || !request.more_destinations.empty();
  if (several && ranges.empty()) {
    return {Code::kInvalidArgument, reasons::kBadEndpoint,
            "several buffers are named, but no ranges",
            "give ranges, each with the numbers of its buffers"};
  }
  if (ranges.groups.size() > 1 && !request.part_of.empty()) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "a part of a series needs exactly two buffers, and this one names more"};
  }
  return OkStatus();
}

Status Muddled(const std::string& node) {
  return {Code::kInternal, reasons::kInternal,
          "node " + node + " was asked for the parts of a transfer, and answered for others"};
}

Status TooOldForFiles(const std::string& node) {
  return {Code::kFailedPrecondition, reasons::kNotApplicable,
          "the onecopyd of node " + node + " is too old to receive another node's file",
          "let the client read it through its own memory, as `onecopy cp` does"};
}

Status WritesNoFiles(const std::string& node) {
  return {Code::kFailedPrecondition, reasons::kNotApplicable,
          "the onecopyd of node " + node + " is too old to write files for other nodes",
          "copy into a buffer on that node; then, on that node, from the buffer into the file"};
}

Status GivenUp() {
  return {Code::kDeadlineExceeded, reasons::kDeadline,
          "the transfer's deadline passed before its source was reserved"};
}

uint64_t PayloadOf(const RangeGroups& ranges) {
  uint64_t bytes = 0;
  for (const RangeGroup& group : ranges.groups) bytes += group.ranges->source.bytes();
  return bytes;
}

}  // namespace

struct Coordinator::Pending {
  Principal who;
  TransferRequest request;
  RangeGroups ranges;
  TransferId id;
  Reply<TransferInfo> reply;
  std::string content;    // stands for what the request asks for
  bool reserved = false;  // the source's node has a ticket for it
  bool recorded = false;  // this node has a record of it, because another one decides it
  os::Clock::time_point begun = os::Clock::now();
  os::EventLoop::TimerId deadline_timer = 0;
  std::string waits_for;
  bool given_up = false;

  bool bundle() const { return ranges.groups.size() > 1; }
  // What is left of its deadline, if it has one.
  std::optional<std::chrono::milliseconds> Remaining() const {
    if (!request.deadline) return std::nullopt;
    const auto passed =
        std::chrono::duration_cast<std::chrono::milliseconds>(os::Clock::now() - begun);
    return std::max(*request.deadline - passed, std::chrono::milliseconds(1));
  }
};

void Coordinator::Create(const Principal& who, TransferRequest request, RangeGroups ranges,
                         Reply<TransferInfo> reply) {
  Status wrong = CheckEnd(request.source, "source");
  if (wrong.ok()) wrong = CheckEnd(request.destination, "destination");
  if (wrong.ok()) wrong = CheckFiles(request);
  if (request.deadline && request.deadline->count() <= 0) {
    wrong = {Code::kInvalidArgument, reasons::kBadArgument, "the deadline has already passed"};
  }
  // What has begun may end.
  if (context_.draining && !request.validate_only && request.part_of.empty()) {
    wrong = context_.Draining();
  }
  for (Endpoint* end : {&request.source, &request.destination}) {
    if (end->node.empty()) end->node = context_.node();
  }
  if (wrong.ok()) wrong = CompleteMore(request.source, "source", &request.more_sources);
  if (wrong.ok()) {
    wrong = CompleteMore(request.destination, "destination", &request.more_destinations);
  }
  if (wrong.ok()) wrong = CheckBuffers(request, ranges);
  if (!wrong.ok()) return reply(wrong);

  auto pending = std::make_shared<Pending>();
  pending->who = who;
  pending->request = std::move(request);
  pending->ranges = std::move(ranges);
  pending->id = NewTransferId();
  if (!pending->request.validate_only) {
    auto shared = std::make_shared<Reply<TransferInfo>>(std::move(reply));
    auto again = [this, shared, request = pending->request.request_id](Result<TransferId> made) {
      if (!made.ok()) return (*shared)(made.status());
      const TransferRecord* record = transfers_.Find(*made);
      if (record != nullptr) return (*shared)(record->info);
      (*shared)(RequestLog<TransferId>::Forgotten(request));
    };
    pending->content = kContentVersion + Digest(Content(pending->request, pending->ranges));
    auto seen = requests_.Begin(OwnerOf(who), who.administrator, pending->request.request_id,
                                pending->content, again);
    if (!seen.ok()) return (*shared)(seen.status());
    if (seen->action == RequestLog<TransferId>::Action::kWait) return;
    if (seen->action == RequestLog<TransferId>::Action::kRepeat) return again(*seen->made);
    reply = [shared](Result<TransferInfo> info) { (*shared)(std::move(info)); };
    pending->reply = std::move(reply);
    if (!pending->request.part_of.empty()) {
      const Status adopted = series_.Adopt(who, pending->request, pending->id);
      if (!adopted.ok()) return Refuse(*pending, adopted);
    }
  } else {
    pending->reply = std::move(reply);
  }
  if (pending->ranges.groups.size() == 1) TakeOnlyPair(&pending->request, &pending->ranges);
  KeepDeadline(pending);
  Reserve(std::move(pending));
}

void Coordinator::KeepDeadline(const std::shared_ptr<Pending>& pending) {
  if (!pending->request.deadline) return;
  pending->deadline_timer =
      context_.loop.RunAfter(*pending->request.deadline, [this, pending] { GiveUp(pending); });
}

// What the other nodes still answer is of no use any more; a transfer that one of them has started
// meanwhile is ended when it says so.
void Coordinator::GiveUp(const std::shared_ptr<Pending>& pending) {
  pending->deadline_timer = 0;
  const Status late(Code::kDeadlineExceeded, reasons::kDeadline,
                    "the transfer did not begin within its deadline of " +
                        std::to_string(pending->request.deadline->count()) + " ms: it waited for " +
                        pending->waits_for,
                    "allow more time with a later deadline");
  Conclude(pending, late);
  pending->given_up = true;
}

void Coordinator::CancelStarted(const Pending& pending) {
  if (pending.request.validate_only) return;
  const Result<PeerApi*> destination = nodes_.Find(pending.request.destination.node);
  if (!destination.ok()) return;  // it has the deadline, too
  (*destination)
      ->Cancel(context_.node(), pending.who.uid, pending.id, [](const Result<TransferInfo>&) {});
}

void Coordinator::GiveBack(const Pending& pending, const Status& why) {
  if (!pending.reserved) return;
  Forgo(context_, nodes_.Find(pending.request.source.node), pending.id, why);
}

TransferRole Coordinator::RoleHere(const TransferRequest& asked) const {
  if (context_.IsSelf(asked.destination.node)) return TransferRole::kDestination;
  return context_.IsSelf(asked.source.node) ? TransferRole::kSource : TransferRole::kInitiator;
}

void Coordinator::Reserve(std::shared_ptr<Pending> pending) {
  const std::string& node = pending->request.source.node;
  pending->waits_for = "node " + node + " to say whether the source may be read";
  nodes_.WhenConnected(node, [this, pending](Result<PeerApi*> source) {
    if (pending->given_up) return;
    if (!source.ok()) return Conclude(pending, source.status());
    ReserveRequest request;
    request.id = pending->id;
    request.uid = pending->who.uid;
    request.administrator = pending->who.administrator;
    request.destination_node = pending->request.destination.node;
    request.source = pending->request.source;
    request.begun = !pending->request.part_of.empty();
    for (const RangeGroup& group : pending->ranges.groups) {
      const LayoutRef layout = {group.ranges, &group.ranges->source};
      if (!pending->bundle()) {
        request.ranges = layout;
        break;
      }
      const TransferRequest& asked = pending->request;
      request.parts.push_back({Nth(asked.source, asked.more_sources, group.source), layout});
    }
    request.validate_only = pending->request.validate_only;
    (*source)->Reserve(context_.node(), std::move(request),
                       [this, pending](Result<Reservation> reservation) {
                         pending->reserved = reservation.ok() && !pending->request.validate_only;
                         if (pending->given_up) return GiveBack(*pending, GivenUp());
                         if (!reservation.ok()) return Conclude(pending, reservation.status());
                         const size_t parts = pending->bundle() ? pending->ranges.groups.size() : 0;
                         if (reservation->parts.size() != parts) {
                           return Conclude(pending, Muddled(pending->request.source.node));
                         }
                         StartAt(pending, std::move(*reservation));
                       });
  });
}

TransferInfo Coordinator::InfoOf(const Pending& pending, const Reservation& reservation) const {
  const TransferRequest& asked = pending.request;
  TransferInfo info;
  info.id = pending.id;
  info.role = RoleHere(asked);
  info.source = reservation.source;
  if (!info.source.file.empty()) info.source.buffer.clear();
  info.destination = asked.destination;
  info.bytes =
      pending.ranges.empty() ? reservation.source.bytes.value_or(0) : PayloadOf(pending.ranges);
  info.source_buffers = asked.more_sources.size() + 1;
  info.destination_buffers = asked.more_destinations.size() + 1;
  info.owner = pending.who.ToString();
  info.create_time = std::chrono::system_clock::now();
  info.part_of = asked.part_of;
  info.trace = asked.trace;
  return info;
}

void Coordinator::Record(const Pending& pending, const Reservation& reservation) const {
  ordered_.Record({InfoOf(pending, reservation), OwnerOf(pending.who), pending.bundle(),
                   pending.request.request_id, pending.content});
}

void Coordinator::Remember(const OrderedRecord& begun) {
  if (!begun.request.starts_with(kContentVersion)) return;
  requests_.Remember(begun.owner, begun.request_id, begun.request, begun.info.id);
}

void Coordinator::StartAt(std::shared_ptr<Pending> pending, Reservation reservation) {
  const std::string& node = pending->request.destination.node;
  pending->waits_for = "node " + node + " to plan and start the transfer";
  nodes_.WhenConnected(node, [this, pending, node, reservation = std::move(reservation)](
                                 Result<PeerApi*> destination) mutable {
    if (pending->given_up) return;
    if (!destination.ok()) return Conclude(pending, destination.status());
    if (reservation.memory == kFileKind && !nodes_.TakesFiles(node)) {
      return Conclude(pending, TooOldForFiles(node));
    }
    const Endpoint& to = pending->request.destination;
    if (to.buffer.empty() && !to.file.empty() && !nodes_.WritesFiles(node)) {
      return Conclude(pending, WritesNoFiles(node));
    }
    const TransferRequest& asked = pending->request;
    const bool whole = !asked.validate_only && asked.part_of.empty();
    if (whole && ordered_.on()) Record(*pending, reservation);
    if (!asked.validate_only && !context_.IsSelf(node)) {
      // Before the destination hears of it, since its reports may be quicker than its answer.
      Result<Ledger::Charge> charge =
          transfers_.Take(OwnerOf(pending->who), context_.node(), pending->who.administrator, 0);
      if (!charge.ok()) return Conclude(pending, charge.status());
      Result<TransferRecord*> record =
          transfers_.Add(InfoOf(*pending, reservation), OwnerOf(pending->who), context_.node(),
                         std::move(*charge));
      if (!record.ok()) return Conclude(pending, record.status());
      pending->recorded = true;
      (*record)->asked = pending->begun;
      (*record)->series = (*record)->bundle = pending->bundle();
      remote_transfers_.Await(**record, node, pending->Remaining());
    }
    StartRequest request;
    request.id = pending->id;
    request.uid = pending->who.uid;
    request.administrator = pending->who.administrator;
    if (pending->bundle()) {
      for (size_t i = 0; i < pending->ranges.groups.size(); ++i) {
        const RangeGroup& group = pending->ranges.groups[i];
        request.parts.push_back({std::move(reservation.parts[i]), group.destination, group.ranges});
      }
      reservation.parts.clear();
    } else if (!pending->ranges.empty()) {
      request.ranges = pending->ranges.groups.front().ranges;
    }
    request.asked_ranges = pending->ranges.asked;
    request.reservation = std::move(reservation);
    request.asked = asked;
    request.asked.deadline = pending->Remaining();
    if (context_.IsSelf(node)) request.since = pending->begun;
    if (!asked.part_of.empty()) request.series = series_.Find(asked.part_of);
    (*destination)
        ->Start(context_.node(), std::move(request), [this, pending](Result<TransferInfo> started) {
          if (pending->given_up) {
            if (started.ok()) CancelStarted(*pending);
            return;
          }
          // It may have begun, of which the caller is told that it has not.
          if (pending->recorded && MayHaveBegun(started.status())) CancelStarted(*pending);
          Conclude(pending, std::move(started));
        });
  });
}

void Coordinator::Conclude(const std::shared_ptr<Pending>& pending, Result<TransferInfo> outcome) {
  context_.loop.CancelTimer(std::exchange(pending->deadline_timer, 0));
  const Owner who = OwnerOf(pending->who);
  if (!outcome.ok()) {
    if (pending->recorded) {
      remote_transfers_.Drop(pending->id);
      transfers_.Drop(pending->id);
    }
    if (!pending->request.validate_only) ordered_.Forget(pending->id);
    series_.Refused(pending->request.part_of, pending->id);
    GiveBack(*pending, outcome.status());
    return Refuse(*pending, outcome.status());
  }
  if (pending->request.validate_only) {
    outcome->role = RoleHere(pending->request);
    return pending->reply(std::move(outcome));
  }
  TransferRecord* record = transfers_.Find(pending->id);
  if (record == nullptr) {  // it has ended since, and no more of those are kept
    requests_.Conclude(who, pending->request.request_id, pending->id);
    return pending->reply(std::move(outcome));
  }
  if (pending->recorded && record->info.state == TransferState::kPending) {
    record->info.destination = outcome->destination;
    record->info.plan = outcome->plan;
    transfers_.Changed(*record);
  }
  if (pending->recorded) remote_transfers_.AskWhenSilent(pending->id);
  series_.Started(*record);
  requests_.Conclude(who, pending->request.request_id, pending->id);
  pending->reply(record->info);
}

void Coordinator::Refuse(Pending& pending, const Status& why) {
  requests_.Conclude({pending.who.uid, pending.who.node}, pending.request.request_id, why);
  pending.reply(why);
}

}  // namespace onecopy::engine
