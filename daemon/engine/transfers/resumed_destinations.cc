#include "daemon/engine/transfers/resumed_destinations.h"

#include <memory>
#include <utility>

#include "daemon/engine/registry/places.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// Starts of the daemon in a row without a byte more. Such a transfer could be what ends the daemon
// each time.
constexpr uint32_t kMostVainStarts = 5;

}  // namespace

bool ResumedDestinations::Record(const std::string& caller, const StartRequest& request,
                                 const Buffer& buffer, const TransferInfo& info) const {
  const bool simple = !request.series && !request.asked.deadline && request.asked.message.empty() &&
                      request.reservation.source.file.empty() && !buffer.keep_arrivals;
  const bool told = needs_.runs.records.CanName(Owner{request.uid, caller});
  // What is read in place has no connection over which it could go on.
  const bool by_link = !info.plan->link.empty();
  if (!buffer.survives() || HasGaps(buffer) || !simple || !told || !by_link) return false;
  needs_.runs.records.EraseArriving(request.id);
  ArrivingRecord record{request, caller, info.plan->path, info.create_time, 0, 0};
  record.request.asked.destination = info.destination;
  record.request.asked.destination.buffer = buffer.id.ToString();
  return needs_.runs.records.Put(record);
}

void ResumedDestinations::Resume(const ArrivingRecord& begun, uint64_t arrived) {
  const StartRequest& request = begun.request;
  if (!MayResume(begun, arrived)) return needs_.runs.records.EraseArriving(request.id);
  Transfers& transfers = needs_.runs.transfers;
  const Endpoint& end = request.asked.destination;
  Buffer* const buffer = needs_.runs.buffers.FindById(BufferId::Parse(end.buffer));
  const ByteRange range{*end.offset_bytes, *end.bytes};
  const Owner owner{request.uid, begun.caller};
  Result<Ledger::Charge> charge = transfers.Take(owner, begun.caller, true, 0);
  const bool told = needs_.runs.records.CanName(owner);
  if (buffer == nullptr || !told || !Contains({0, buffer->bytes}, range) || !charge.ok()) {
    return needs_.runs.records.EraseArriving(request.id);
  }
  Result<MemoryPlace> place = PlaceOf(*buffer, range, nullptr);
  if (!place.ok()) return needs_.runs.records.EraseArriving(request.id);
  DestinationRun::Params params;
  params.request = request;
  params.buffer = buffer->id;
  params.destination = AreaOf(*buffer, std::move(*place));
  params.recorded = true;
  TransferInfo info;
  info.id = request.id;
  info.role = TransferRole::kDestination;
  info.state = TransferState::kRunning;
  info.source = request.reservation.source;
  info.destination = {needs_.runs.context.node(), buffer->name, range.offset, range.bytes};
  info.bytes = range.bytes;
  info.owner = owner.ToString();
  info.create_time = begun.create_time;
  info.trace = request.asked.trace;
  Result<TransferRecord*> record =
      transfers.Add(std::move(info), owner, begun.caller, std::move(*charge));
  if (!record.ok()) return;  // another one has the id
  (*record)->BeganBefore();
  needs_.runs.buffers.Hold(params.buffer, request.id);
  log::Info("a transfer from before the restart goes on",
            {{"transfer", request.id.str()},
             {"source", (*record)->info.source.ToString()},
             {"from", std::to_string(arrived)},
             {"trace", request.asked.trace}});
  auto run = std::make_shared<DestinationRun>(needs_.runs, std::move(params));
  transfers.BeginRun(**record, run);
  run->Resume(
      ReporterOf(request.id, begun.caller, request.reservation.source.node), needs_.plans.Replan(),
      [this, caller = begun.caller, request](Reply<plan::Path> reply) {
        Learn(caller, request, std::move(reply));
      },
      arrived, begun.path);
}

bool ResumedDestinations::MayResume(const ArrivingRecord& begun, uint64_t arrived) const {
  ArrivingRecord next = begun;
  next.vain_starts = arrived > begun.resumed_from ? 0 : begun.vain_starts + 1;
  next.resumed_from = arrived;
  if (next.vain_starts > kMostVainStarts) {
    log::Warning("a transfer is not resumed any more",
                 {{"transfer", begun.request.id.str()},
                  {"source", begun.request.reservation.source.ToString()},
                  {"starts", std::to_string(next.vain_starts)},
                  {"trace", begun.request.asked.trace}});
    return false;
  }
  needs_.runs.records.Put(next);
  return true;
}

void ResumedDestinations::CancelLeft(TransferRecord& record, const Status& why) {
  const bool left = needs_.runs.context.stopping && record.run == nullptr &&
                    record.info.role == TransferRole::kDestination && !record.series &&
                    !IsFinal(record.info.state);
  if (!left) return;
  needs_.runs.transfers.Conclude(record, why);
  needs_.runs.records.EraseArriving(record.info.id);
}

void ResumedDestinations::Learn(const std::string& caller, const StartRequest& request,
                                Reply<plan::Path> reply) {
  const std::string source_node = request.reservation.source.node;
  const auto answer = std::make_shared<Reply<plan::Path>>(std::move(reply));
  auto learn = [this, caller, request, source_node, answer] {
    const Result<std::vector<plan::Wire>> unknowns = needs_.plans.Unknowns(caller, request, true);
    if (!unknowns.ok()) return (*answer)(unknowns.status());
    needs_.probes.Await(source_node, *unknowns, [this, caller, request, answer] {
      const Result<DestinationPlans::Checked> checked = needs_.plans.Check(caller, request, true);
      if (!checked.ok()) return (*answer)(checked.status());
      TransferRecord* const record = needs_.runs.transfers.Find(request.id);
      if (record != nullptr && checked->grant) record->grants = {*checked->grant};
      (*answer)(needs_.plans.MakePlan(request.reservation, checked->area, nullptr,
                                      request.asked.policy, {}));
    });
  };
  // A third node's users are known by what that node says of itself.
  const bool third = caller != source_node && !needs_.runs.context.IsSelf(caller);
  if (!third) return learn();
  needs_.runs.peers.WhenConnected(
      caller, [caller, learn = std::move(learn), answer](const Result<PeerApi*>& peer) mutable {
        if (peer.ok()) return learn();
        (*answer)(Status(Code::kUnavailable, reasons::kPeerDown,
                         "node " + caller + ", which asked for the transfer, does not answer yet"));
      });
}

std::shared_ptr<Reporter> ResumedDestinations::ReporterOf(const TransferId& id,
                                                          const std::string& caller,
                                                          const std::string& source_node) const {
  auto reporter =
      std::make_shared<Reporter>(needs_.runs.context, needs_.runs.peers, needs_.runs.transfers, id);
  if (!caller.empty()) reporter->AddObserver(caller);
  reporter->AddObserver(source_node);
  return reporter;
}

}  // namespace onecopy::engine
