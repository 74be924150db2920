// The receipts of what went by rings: made when somebody asks, from what the rings' thread noted.
#include <algorithm>
#include <charconv>
#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/engine/rings/rings.h"
#include "daemon/engine/transfers/transfers.h"
#include "transport/core/duration.h"

namespace onecopy::engine {
namespace {

WallTime WallTimeOf(ring::Clock::time_point when) {
  return std::chrono::system_clock::now() -
         std::chrono::duration_cast<WallTime::duration>(ring::Clock::now() - when);
}

std::string Hex(uint64_t number) {
  char text[17];
  const auto end = std::to_chars(text, text + sizeof text, number, 16);
  return std::string(text, end.ptr);
}

}  // namespace

void Rings::File(const TransferId& id) {
  const std::string& text = id.str();
  const size_t dash = text.find('-');
  if (dash == std::string::npos) return;
  const auto ring = by_prefix_.find(text.substr(0, dash));
  if (ring == by_prefix_.end()) return;
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + dash + 1, end, number, 16);
  if (parsed.ec != std::errc() || parsed.ptr != end) return;
  if (const auto entry = ring->second->journal->Read(number)) FileEntry(*ring->second, *entry);
}

void Rings::Collect(Ring& ring, std::vector<Unfiled>* unfiled) const {
  for (uint64_t slot = 0; slot < ring::Journal::kEntries; ++slot) {
    const std::optional<uint64_t> number = ring.journal->NumberIn(slot);
    if (!number || ring.filed[slot] == *number + 1) continue;
    if (auto entry = ring.journal->Read(*number)) unfiled->push_back({*entry, &ring});
  }
}

void Rings::FileAll() {
  std::vector<Unfiled> unfiled;
  for (const auto& [prefix, ring] : by_prefix_) Collect(*ring, &unfiled);
  FileEntries(std::move(unfiled));
}

// No more of an owner's than the table keeps, the oldest first, as if they had been there all the
// time.
void Rings::FileEntries(std::vector<Unfiled> unfiled) {
  std::sort(unfiled.begin(), unfiled.end(), [](const Unfiled& a, const Unfiled& b) {
    return std::pair(a.entry.ended, a.entry.number) < std::pair(b.entry.ended, b.entry.number);
  });
  std::map<Owner, size_t> more;  // than are kept
  for (const Unfiled& one : unfiled) ++more[one.ring->owner];
  for (const Unfiled& one : unfiled) {
    if (more[one.ring->owner]-- <= parts_.context.options.keep_transfers) {
      FileEntry(*one.ring, one.entry);
    }
  }
}

void Rings::FileEntry(Ring& ring, const ring::Entry& entry) {
  const auto found = ring.routes.find(entry.route);
  if (found == ring.routes.end() && entry.route != 0) return;
  uint64_t& filed = ring.filed[entry.number % ring::Journal::kEntries];
  if (std::exchange(filed, entry.number + 1) == entry.number + 1) return;
  TransferInfo info;
  info.id = TransferId(ring.prefix + "-" + Hex(entry.number));
  info.source.node = info.destination.node = parts_.context.node();
  Status outcome = StatusOf(entry.outcome);
  if (found != ring.routes.end()) outcome = DescribeEntry(found->second, entry, &info);
  info.source.offset = entry.from;
  info.destination.offset = entry.to;
  info.source.bytes = info.destination.bytes = info.bytes = entry.bytes;
  info.owner = ring.owner.ToString();
  info.create_time = WallTimeOf(entry.taken);
  info.end_time =
      info.create_time + std::chrono::duration_cast<WallTime::duration>(entry.ended - entry.taken);
  info.receipt.evidence["submitted"] = "ring";
  info.receipt.negotiation_seconds = ToSeconds(entry.begun - entry.taken);
  info.bytes_done = outcome.ok() ? entry.bytes : 0;
  info.receipt.attempts.push_back(
      {info.receipt.path, outcome.ok() ? "SUCCEEDED" : outcome.reason(), info.bytes_done});
  auto record = parts_.transfers.Add(std::move(info), ring.owner, parts_.context.node(), {});
  if (!record.ok()) return;
  (*record)->logged = false;  // long after its end, and beside thousands of others
  parts_.transfers.Conclude(**record, outcome);
}

Status Rings::DescribeEntry(const Description& description, const ring::Entry& entry,
                            TransferInfo* into) const {
  TransferInfo& info = *into;
  const plan::Plan& plan = description.given.plan;
  const Status outcome = entry.outcome == ring::Outcome::kWithdrawn ? description.route->why()
                         : entry.outcome == ring::Outcome::kFailed  ? description.route->failure()
                                                                    : StatusOf(entry.outcome);
  info.source = description.given.source;
  info.destination = description.given.destination;
  info.plan = plan;
  Receipt& receipt = info.receipt;
  receipt.path = plan.path.name;
  receipt.refused = plan.refused;
  receipt.registration = description.access.registration;
  receipt.key = description.access.key;
  receipt.encryption = description.access.encryption;
  if (!description.push.empty()) {
    info.role = TransferRole::kSource;
    receipt.evidence["steps"] =
        "as planned by node " + description.peer + ", which made the copies";
  }
  if (outcome.ok()) {
    receipt.seconds = ToSeconds(entry.ended - entry.begun);
    const StepList steps = description.steps->Get();
    for (const Step& step : *steps) receipt.steps.push_back({step, entry.bytes});
  }
  return outcome;
}

}  // namespace onecopy::engine
