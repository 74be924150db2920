#include "daemon/engine/rings/ring_receipts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/log/log.h"
#include "transport/core/base/duration.h"
#include "transport/digest/tree.h"

namespace onecopy::engine {
namespace {

WallTime WallTimeOf(ring::Clock::time_point when) {
  return std::chrono::system_clock::now() -
         std::chrono::duration_cast<WallTime::duration>(ring::Clock::now() - when);
}

// What the route tells of the transfer; how that ended.
Status DescribeEntry(const RouteRecord& route, const ring::Entry& entry, TransferInfo* into) {
  TransferInfo& info = *into;
  const Plan& plan = route.given.plan;
  const Status outcome = entry.outcome == ring::Outcome::kRevoked  ? route.route->why()
                         : entry.outcome == ring::Outcome::kFailed ? route.route->failure()
                                                                   : StatusOf(entry.outcome);
  info.source = route.given.source;
  info.destination = route.given.destination;
  info.plan = plan;
  Receipt& receipt = info.receipt;
  receipt.path = plan.path;
  receipt.link = plan.link;
  receipt.refused = plan.refused;
  receipt.registration = route.access.registration;
  receipt.key = route.access.key;
  receipt.encryption = route.access.encryption;
  if (!route.shared.empty()) receipt.evidence["shared"] = route.shared;
  if (!route.push.empty()) {
    info.role = TransferRole::kSource;
    receipt.evidence["steps"] = "as planned by node " + route.peer + ", which made the copies";
  }
  if (outcome.ok()) {
    receipt.seconds = ToSeconds(entry.ended - entry.begun);
    const StepList steps = (entry.pieces > 0 ? route.list_steps : route.steps)->Get();
    for (const Step& step : *steps) receipt.steps.push_back({step, entry.bytes});
    if (entry.sum) {
      receipt.checksum = ChecksumResult{digest::kTreeAlgorithm, digest::HexOf(*entry.sum), true};
    }
  }
  return outcome;
}

}  // namespace

void RingReceipts::File(ClientRing& ring, uint64_t number) {
  if (const auto entry = ring.journal->Read(number)) FileEntry(ring, *entry);
}

void RingReceipts::Collect(ClientRing& ring, std::vector<Unfiled>* unfiled) {
  for (uint64_t slot = 0; slot < ring::Journal::kEntries; ++slot) {
    const std::optional<uint64_t> number = ring.journal->NumberIn(slot);
    if (!number || ring.filed[slot] == *number + 1) continue;
    if (auto entry = ring.journal->Read(*number)) unfiled->push_back({*entry, &ring});
  }
}

void RingReceipts::FileAll(const std::vector<ClientRing*>& rings) {
  std::vector<Unfiled> unfiled;
  for (ClientRing* ring : rings) Collect(*ring, &unfiled);
  std::sort(unfiled.begin(), unfiled.end(), [](const Unfiled& a, const Unfiled& b) {
    return std::pair(a.entry.ended, a.entry.number) < std::pair(b.entry.ended, b.entry.number);
  });
  std::map<Owner, size_t> more;  // than are kept
  for (const Unfiled& one : unfiled) ++more[one.ring->owner];
  for (const Unfiled& one : unfiled) {
    if (more[one.ring->owner]-- <= context_.options.keep_transfers) {
      FileEntry(*one.ring, one.entry);
    }
  }
}

TransferRecord* RingReceipts::AddEntry(ClientRing& ring, const ring::Entry& entry,
                                       Status* outcome) {
  const auto found = ring.routes.find(entry.route);
  if (found == ring.routes.end() && entry.route != 0) return nullptr;
  uint64_t& filed = ring.filed[entry.number % ring::Journal::kEntries];
  if (std::exchange(filed, entry.number + 1) == entry.number + 1) return nullptr;
  TransferInfo info;
  info.id = RingTransferId(ring.prefix, entry.number);
  info.source.node = info.destination.node = context_.node();
  *outcome = StatusOf(entry.outcome);
  if (found != ring.routes.end()) *outcome = DescribeEntry(found->second, entry, &info);
  info.source.offset_bytes = entry.from;
  info.destination.offset_bytes = entry.to;
  info.source.bytes = entry.from_bytes;
  info.destination.bytes = entry.to_bytes;
  info.bytes = entry.bytes;
  if (entry.pieces > 0) info.receipt.ranges = info.receipt.merged_ranges = entry.pieces;
  info.owner = ring.owner.ToString();
  info.create_time = WallTimeOf(entry.taken);
  info.end_time =
      info.create_time + std::chrono::duration_cast<WallTime::duration>(entry.ended - entry.taken);
  info.receipt.evidence["submitted"] = "ring";
  info.receipt.negotiation_seconds = ToSeconds(entry.begun - entry.taken);
  info.receipt.asked_seconds = ToSeconds(entry.ended - entry.taken);
  info.bytes_done = outcome->ok() ? entry.bytes : 0;
  info.receipt.attempts.push_back(
      {info.receipt.path, outcome->ok() ? "SUCCEEDED" : outcome->reason(), info.bytes_done});
  auto record = transfers_.Add(std::move(info), ring.owner, context_.node(), {});
  if (!record.ok()) return nullptr;
  (*record)->heard = true;  // by the ring
  (*record)->by_ring = true;
  return *record;
}

void RingReceipts::FileEntry(ClientRing& ring, const ring::Entry& entry) {
  Status outcome;
  TransferRecord* const record = AddEntry(ring, entry, &outcome);
  if (record == nullptr) return;
  record->logged = false;  // long after its end, and beside thousands of others
  transfers_.Conclude(*record, outcome);
}

void RingReceipts::Tell(ClientRing& ring, const ring::Entry& entry) {
  Status outcome;
  TransferRecord* const record = AddEntry(ring, entry, &outcome);
  if (record == nullptr) return;
  transfers_.CountBeside();
  const auto route = ring.routes.find(entry.route);
  // The other node of a push tells the buffer's watchers, and keeps the rate of the path.
  const bool here = route != ring.routes.end() && route->second.push.empty();
  if (outcome.ok() && here) NoteArrived(route->second, entry, record->info);
  record->logged = (outcome.ok() ? ring.succeeded_lines : ring.failed_lines).Take();
  if (record->logged) LogLeftOut(ring);
  transfers_.Conclude(*record, outcome);
}

void RingReceipts::LogLeftOut(ClientRing& ring) {
  const uint64_t succeeded = ring.succeeded_lines.TakeLeftOut();
  const uint64_t failed = ring.failed_lines.TakeLeftOut();
  if (succeeded + failed == 0) return;
  log::Write(failed > 0 ? log::Level::kWarning : log::Level::kInfo,
             "transfers by a ring ended without lines of their own",
             {{"owner", ring.owner.ToString()}, {"succeeded", succeeded}, {"failed", failed}});
}

void RingReceipts::NoteArrived(const RouteRecord& route, const ring::Entry& entry,
                               TransferInfo& info) {
  const Buffer* const into = buffers_.FindById(route.buffers.back());
  if (into == nullptr) return;  // gone since
  Arrival arrival;
  arrival.transfer = info.id;
  arrival.from = info.owner;
  arrival.range = {entry.to, entry.to_bytes};
  arrival.bytes = entry.bytes;
  arrivals_.Deliver(*into, std::move(arrival), {});
  if (entry.pieces > 0) return;  // a path's rate is of one piece
  rates_.Note({route.from_node, route.given.plan.path, route.given.plan.link, route.from_place,
               into->region->place(), route.long_bytes_per_second.value_or(0)},
              entry.begun, entry.alone, info);
}

}  // namespace onecopy::engine
