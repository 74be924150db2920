#include "daemon/engine/transfers/destinations.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/footprint.h"
#include "daemon/engine/base/names.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/places.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/core/contracts/store.h"
#include "transport/core/ranges/scatter.h"

namespace onecopy::engine {
namespace {

bool IsLimited(const Context& context, const Owner& owner, const Pacing& asked) {
  const Flows::Rates rates = context.flows.RatesOf(owner, owner.node);
  return asked.rate_limit_bytes_per_second != 0 || rates.of_user != 0 || rates.of_node != 0;
}

}  // namespace

void Destinations::Start(const std::string& caller, const StartRequest& request,
                         Reply<TransferInfo> reply) {
  const std::string& source_node = request.reservation.source.node;
  if (needs_.runs.context.IsSelf(source_node)) return reply(Accept(caller, request));
  needs_.runs.peers.WhenConnected(source_node, [this, caller, request, source_node,
                                                reply = std::move(reply)](auto peer) mutable {
    if (!peer.ok()) return reply(peer.status());
    const Result<std::vector<plan::Wire>> unknowns = needs_.plans.Unknowns(caller, request);
    if (!unknowns.ok()) return reply(unknowns.status());
    needs_.probes.Await(source_node, *unknowns,
                        [this, caller, request, reply = std::move(reply)]() mutable {
                          reply(Accept(caller, request));
                        });
  });
}

Result<Ticket> Destinations::OwnTicket(const std::string& caller,
                                       const StartRequest& request) const {
  const std::string& self = needs_.runs.context.node();
  const Reservation& said = request.reservation;
  if (request.asked.validate_only) {
    ReserveRequest evaluated;
    evaluated.id = request.id;
    evaluated.uid = request.uid;
    evaluated.administrator = request.administrator;
    evaluated.destination_node = self;
    evaluated.source = said.source;
    ONECOPY_ASSIGN_OR_RETURN(Ticket ticket, needs_.tickets.Evaluate(caller, evaluated));
    if (request.ranges != nullptr) {
      const LayoutRef ranges = {request.ranges, &request.ranges->source};
      ONECOPY_RETURN_IF_ERROR(needs_.tickets.Narrow(ranges, &ticket));
    }
    return ticket;
  }
  ONECOPY_ASSIGN_OR_RETURN(Ticket ticket, needs_.tickets.Look(self, said.ticket, request.id));
  if (ticket.owner == Owner{request.uid, caller}) return ticket;
  return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                "the ticket was not issued to " + Owner{request.uid, caller}.ToString());
}

Result<TransferInfo> Destinations::Accept(const std::string& caller, const StartRequest& request,
                                          const TransferId& whole, OverlapBudget* budget) {
  if (!needs_.runs.context.IsSelf(request.reservation.source.node)) {
    return AcceptFrom(caller, request, whole, nullptr, budget);
  }
  ONECOPY_ASSIGN_OR_RETURN(const Ticket ticket, OwnTicket(caller, request));
  StartRequest truth = request;
  truth.reservation = needs_.tickets.Describe(ticket);
  ONECOPY_ASSIGN_OR_RETURN(TransferInfo accepted,
                           AcceptFrom(caller, truth, whole, &ticket, budget));
  // Used up only by what begins.
  if (!request.asked.validate_only) {
    (void)needs_.tickets.Take(needs_.runs.context.node(), request.reservation.ticket, request.id);
  }
  return accepted;
}

Result<TransferInfo> Destinations::AcceptFrom(const std::string& caller,
                                              const StartRequest& request, const TransferId& whole,
                                              const Ticket* inside, OverlapBudget* budget) {
  Context& context = needs_.runs.context;
  ONECOPY_ASSIGN_OR_RETURN(const DestinationPlans::Checked checked,
                           needs_.plans.Check(caller, request, !whole.empty()));
  const auto& [buffer, range, area, ranges, grant] = checked;
  const Reservation& source = request.reservation;
  ONECOPY_ASSIGN_OR_RETURN(
      plan::Request question,
      needs_.plans.MakeRequest(source, area, ranges, request.asked.policy, {}));
  // Only of what runs alone something is learnt; who has set a deadline has no time to spare.
  question.may_try_again = !request.asked.validate_only && !request.asked.deadline &&
                           ranges == nullptr && needs_.runs.transfers.running() == 0 &&
                           !IsLimited(context, {request.uid, caller}, request.asked.pacing) &&
                           question.bytes >= plan::kMinMeasuredBytes;
  ONECOPY_ASSIGN_OR_RETURN(plan::Path plan, plan::MakePlan(question));
  TransferInfo info;
  info.id = request.id;
  info.role = TransferRole::kDestination;
  info.source = source.source;
  info.destination = {context.node(), buffer->name, range.offset, range.bytes};
  if (buffer->file) info.destination.file = std::exchange(info.destination.buffer, {});
  if (!info.source.file.empty()) info.source.buffer.clear();
  info.bytes = area.payload();
  info.owner = Owner{request.uid, caller}.ToString();
  info.create_time = std::chrono::system_clock::now();
  info.trace = request.asked.trace;
  info.plan = plan;

  DestinationRun::Params params;
  params.request = request;
  params.request.ranges = ranges;
  params.plan = std::move(plan);
  params.buffer = buffer->id;
  params.destination = area;
  if (buffer->registered) params.client_buffer = buffer->name;
  std::vector<GrantId> grants;
  if (grant) grants.push_back(*grant);
  if (inside != nullptr) {
    const Buffer* const from = needs_.runs.buffers.FindById(inside->buffer);
    if (inside->payload() != area.payload()) {
      return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                    "the ticket allows reading " + std::to_string(inside->payload()) +
                        " bytes, and the destination takes " + std::to_string(area.payload()));
    }
    const Area read = AreaOf(*from, inside->place);
    if (read.span.region == area.span.region) {
      const PlacedLayout a{read.layout.get(), read.span.offset, read.span.bytes};
      const PlacedLayout b{area.layout.get(), area.span.offset, area.span.bytes};
      ONECOPY_RETURN_IF_ERROR(
          CheckApart({&a, 1}, {&b, 1},
                     "source and destination overlap in buffer \"" + buffer->name + "\"", budget));
    }
    params.source_buffer = from->id;
    params.source_area = read;
    if (inside->grant) grants.push_back(*inside->grant);
  }
  if (request.asked.validate_only) {
    info.id = {};
    return info;
  }
  if (request.series) {
    ONECOPY_RETURN_IF_ERROR(needs_.series.Join(caller, *request.series, Owner{request.uid, caller},
                                               TransferRole::kDestination));
    info.part_of = request.series->id;
  }
  params.tell = whole.empty();
  const size_t message_bytes = request.asked.message.size();
  if (params.tell && (message_bytes > 0 || buffer->keep_arrivals)) {
    ONECOPY_ASSIGN_OR_RETURN(params.room, needs_.runs.arrivals.Reserve(*buffer, message_bytes));
  }
  Ledger::Charge charge;
  if (whole.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(charge, needs_.runs.transfers.Take(
                                         Owner{request.uid, caller}, caller, request.administrator,
                                         FootprintOf(ranges) + FootprintOf(source.place) +
                                             FootprintOf(request.asked.message) +
                                             FootprintOf(request.asked.trace.str())));
  } else {
    info.part_of = whole;
  }
  ONECOPY_ASSIGN_OR_RETURN(TransferRecord* const record,
                           needs_.runs.transfers.Add(std::move(info), Owner{request.uid, caller},
                                                     caller, std::move(charge)));
  record->asked = request.since.value_or(record->created);
  record->grants = std::move(grants);
  needs_.runs.buffers.Hold(params.buffer, request.id);
  if (inside != nullptr) needs_.runs.buffers.Hold(*params.source_buffer, request.id);
  log::Debug("transfer accepted", {{"transfer", request.id.str()},
                                   {"from", record->info.source.ToString()},
                                   {"to", record->info.destination.ToString()},
                                   {"path", params.plan.path},
                                   {"trace", request.asked.trace}});
  params.recorded = whole.empty() && ranges == nullptr && inside == nullptr &&
                    needs_.resumed.Record(caller, request, *buffer, record->info);
  auto run = std::make_shared<DestinationRun>(needs_.runs, std::move(params));
  needs_.runs.transfers.BeginRun(*record, run);
  const TransferInfo accepted = record->info;
  run->Start(needs_.resumed.ReporterOf(request.id, whole.empty() ? caller : std::string(),
                                       source.source.node),
             needs_.plans.Replan());
  return accepted;
}

}  // namespace onecopy::engine
