#include "daemon/engine/transfers/bundles.h"

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/footprint.h"
#include "daemon/engine/base/names.h"
#include "daemon/engine/transfers/bundle_parts.h"
#include "daemon/log/log.h"

namespace onecopy::engine {
namespace {

// Parts that are checked or planned before others have their turn on the thread.
constexpr size_t kAtOnce = 32;

// What a transfer keeps of its parts until they have begun.
uint64_t FootprintOfAll(const std::vector<StartRequest>& parts) {
  uint64_t bytes = 0;
  for (const StartRequest& part : parts) {
    bytes += sizeof part + FootprintOf(part.ranges) + FootprintOf(part.asked.destination) +
             FootprintOf(part.reservation.source) + FootprintOf(part.reservation.place) +
             FootprintOf(part.asked.message) + FootprintOf(part.asked.trace.str());
  }
  return bytes;
}

Status OfPart(const Status& why, const StartRequest& part) {
  return why.WithContext("from buffer " + Printable(part.reservation.source.buffer) +
                         " to buffer " + Printable(part.asked.destination.buffer));
}

}  // namespace

// A request on its way to its beginning.
struct Bundles::Pending {
  std::string caller;
  StartRequest request;
  std::vector<StartRequest> parts;
  Reply<TransferInfo> reply;
  size_t explored = 0;
  std::set<plan::Wire> wires;         // that have to be known
  std::vector<TransferInfo> planned;  // of the first parts, as far as it has come
  OverlapBudget budget;               // for each part by itself, of those inside this node
};

void Bundles::Start(const std::string& caller, const StartRequest& request,
                    Reply<TransferInfo> reply) {
  auto parts = PartsOf(request);
  if (!parts.ok()) return reply(parts.status());
  auto pending = std::make_shared<Pending>();
  pending->caller = caller;
  pending->request = request;
  pending->parts = std::move(*parts);
  pending->reply = std::move(reply);
  const std::string& source = pending->parts.front().reservation.source.node;
  if (needs_.context.IsSelf(source)) return Plan(pending);
  needs_.peers.WhenConnected(source, [this, pending](const Result<PeerApi*>& peer) {
    if (!peer.ok()) return pending->reply(peer.status());
    Explore(pending);
  });
}

void Bundles::Explore(const std::shared_ptr<Pending>& pending) {
  const std::vector<StartRequest>& parts = pending->parts;
  const size_t end = std::min(pending->explored + kAtOnce, parts.size());
  for (size_t& i = pending->explored; i < end; ++i) {
    const auto unknowns = needs_.plans.Unknowns(pending->caller, parts[i]);
    if (!unknowns.ok()) return pending->reply(OfPart(unknowns.status(), parts[i]));
    pending->wires.insert(unknowns->begin(), unknowns->end());
  }
  if (end < parts.size()) return needs_.context.loop.Post([this, pending] { Explore(pending); });
  needs_.probes.Await(parts.front().reservation.source.node,
                      {pending->wires.begin(), pending->wires.end()},
                      [this, pending] { Plan(pending); });
}

void Bundles::Plan(const std::shared_ptr<Pending>& pending) {
  const std::vector<StartRequest>& parts = pending->parts;
  const size_t end = std::min(pending->planned.size() + kAtOnce, parts.size());
  while (pending->planned.size() < end) {
    StartRequest question = parts[pending->planned.size()];
    question.asked.validate_only = true;
    auto planned = needs_.destinations.Accept(pending->caller, question, {}, &pending->budget);
    if (!planned.ok()) return pending->reply(OfPart(planned.status(), question));
    pending->planned.push_back(std::move(*planned));
  }
  if (end < parts.size()) return needs_.context.loop.Post([this, pending] { Plan(pending); });
  pending->reply(Begin(*pending));
}

Result<TransferInfo> Bundles::Begin(Pending& pending) {
  const StartRequest& request = pending.request;
  Context& context = needs_.context;
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<PartEnds> ends,
                           EndsHere(pending.parts, pending.planned));
  ONECOPY_RETURN_IF_ERROR(CheckPartsApart(ends));
  TransferInfo info = Summary(request, pending.planned);
  if (request.asked.validate_only) {
    info.id = {};
    return info;
  }
  if (context.stopping || context.draining) return context.Draining();
  const Owner owner{request.uid, pending.caller};
  ONECOPY_ASSIGN_OR_RETURN(Ledger::Charge charge,
                           needs_.transfers.Take(owner, pending.caller, request.administrator,
                                                 FootprintOfAll(pending.parts)));
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<BufferId> buffers, BuffersHere(pending.planned));
  ONECOPY_ASSIGN_OR_RETURN(std::vector<BundleRun::Arriving> arriving,
                           ArrivingAt(request, pending.planned));
  ONECOPY_ASSIGN_OR_RETURN(
      TransferRecord* const record,
      needs_.transfers.Add(std::move(info), owner, pending.caller, std::move(charge)));
  record->asked = request.since.value_or(record->created);
  record->series = record->bundle = true;
  needs_.series.KeepPartsOf(request.id);
  log::Debug("transfer accepted", {{"transfer", request.id.str()},
                                   {"from", record->info.source.ToString()},
                                   {"to", record->info.destination.ToString()},
                                   {"path", record->info.plan->path},
                                   {"parts", pending.parts.size()},
                                   {"trace", request.asked.trace}});
  auto reporter = std::make_shared<Reporter>(context, needs_.peers, needs_.transfers, request.id);
  reporter->AddObserver(pending.caller);
  reporter->AddObserver(record->info.source.node);
  auto run = std::make_shared<BundleRun>(
      BundleRun::Needs{context, needs_.buffers, needs_.arrivals, needs_.transfers,
                       needs_.destinations},
      BundleRun::Params{request.id, pending.caller, std::move(pending.parts), buffers,
                        std::move(arriving), request.asked_ranges, request.asked.checksum},
      std::move(reporter));
  runs_[request.id] = run;
  needs_.transfers.BeginRun(*record, run);
  run->Start();
  return record->info;
}

Result<PartEnd> Bundles::EndHere(const Endpoint& end, LayoutRef layout) const {
  ONECOPY_ASSIGN_OR_RETURN(const Buffer* const buffer, needs_.buffers.Find(end.buffer));
  const ByteRange range{end.offset_bytes.value_or(0), end.bytes.value_or(0)};
  if (layout->contiguous()) layout = nullptr;
  ONECOPY_ASSIGN_OR_RETURN(MemoryPlace place, PlaceOf(*buffer, range, std::move(layout)));
  return PartEnd{buffer->name, buffer->memory(), std::move(place)};
}

Result<std::vector<PartEnds>> Bundles::EndsHere(const std::vector<StartRequest>& parts,
                                                const std::vector<TransferInfo>& planned) const {
  std::vector<PartEnds> all;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ScatterRef& ranges = parts[i].ranges;
    PartEnds ends;
    if (needs_.context.IsSelf(planned[i].source.node)) {
      ONECOPY_ASSIGN_OR_RETURN(ends.source, EndHere(planned[i].source, {ranges, &ranges->source}));
    }
    ONECOPY_ASSIGN_OR_RETURN(ends.destination,
                             EndHere(planned[i].destination, {ranges, &ranges->destination}));
    all.push_back(std::move(ends));
  }
  return all;
}

Result<std::vector<BufferId>> Bundles::BuffersHere(const std::vector<TransferInfo>& planned) const {
  std::set<std::string> names;
  for (const TransferInfo& part : planned) {
    names.insert(part.destination.buffer);
    if (needs_.context.IsSelf(part.source.node)) names.insert(part.source.buffer);
  }
  std::vector<BufferId> buffers;
  for (const std::string& name : names) {
    ONECOPY_ASSIGN_OR_RETURN(const Buffer* const buffer, needs_.buffers.Find(name));
    buffers.push_back(buffer->id);
  }
  return buffers;
}

Result<std::vector<BundleRun::Arriving>> Bundles::ArrivingAt(
    const StartRequest& request, const std::vector<TransferInfo>& planned) const {
  std::map<std::string, BundleRun::Arriving> by_name;
  for (const TransferInfo& part : planned) {
    const uint64_t begin = part.destination.offset_bytes.value_or(0);
    const uint64_t end = begin + part.destination.bytes.value_or(0);
    const auto [place, added] = by_name.try_emplace(part.destination.buffer);
    BundleRun::Arriving& one = place->second;
    const uint64_t first = added ? begin : std::min(one.range.offset, begin);
    const uint64_t last = added ? end : std::max(one.range.offset + one.range.bytes, end);
    one.range = {first, last - first};
    one.bytes += part.bytes;
  }
  // What no range names is not written, and the right to it was not checked.
  std::string tells = by_name.rbegin()->first;
  for (size_t i = 0; i < planned.size(); ++i) {
    if (request.parts[i].destination == 0) tells = planned[i].destination.buffer;
  }
  std::vector<BundleRun::Arriving> all;
  for (auto& [name, one] : by_name) {
    ONECOPY_ASSIGN_OR_RETURN(const Buffer* const buffer, needs_.buffers.Find(name));
    one.buffer = buffer->id;
    if (name == tells) one.message = request.asked.message;
    if (!one.message.empty() || buffer->keep_arrivals) {
      ONECOPY_ASSIGN_OR_RETURN(one.room, needs_.arrivals.Reserve(*buffer, one.message.size()));
    }
    if (name != tells) all.push_back(std::move(one));
  }
  all.push_back(std::move(by_name.at(tells)));
  return all;
}

void Bundles::OnFinal(const TransferRecord& record) {
  const bool part = !record.info.part_of.empty();
  const auto run = runs_.find(part ? record.info.part_of : record.info.id);
  if (run == runs_.end()) return;
  if (part) return run->second->OnPartFinal(record);
  runs_.erase(run);
}

}  // namespace onecopy::engine
