// The receipts of what went by rings: made when somebody asks, from what the rings' thread noted.
#include <algorithm>
#include <charconv>
#include <utility>

#include "daemon/engine/context.h"
#include "daemon/engine/rings.h"
#include "daemon/engine/transfers.h"

namespace onecopy::engine {
namespace {

double Seconds(ring::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

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

// No more than the table keeps, the oldest first, as if they had been there all the time.
void Rings::FileEntries(std::vector<Unfiled> unfiled) {
  std::sort(unfiled.begin(), unfiled.end(), [](const Unfiled& a, const Unfiled& b) {
    return std::pair(a.entry.ended, a.entry.number) < std::pair(b.entry.ended, b.entry.number);
  });
  const size_t most = parts_.context.options.keep_transfers;
  for (size_t i = unfiled.size() > most ? unfiled.size() - most : 0; i < unfiled.size(); ++i) {
    FileEntry(*unfiled[i].ring, unfiled[i].entry);
  }
}

void Rings::FileEntry(Ring& ring, const ring::Entry& entry) {
  const auto found = ring.routes.find(entry.route);
  if (found == ring.routes.end()) return;
  uint64_t& filed = ring.filed[entry.number % ring::Journal::kEntries];
  if (std::exchange(filed, entry.number + 1) == entry.number + 1) return;
  const Description& description = found->second;
  const plan::Plan& plan = description.given.plan;
  const Status outcome = entry.outcome == ring::Outcome::kWithdrawn ? description.route->why()
                         : entry.outcome == ring::Outcome::kFailed  ? description.route->failure()
                                                                    : StatusOf(entry.outcome);
  TransferInfo info;
  info.id = TransferId(ring.prefix + "-" + Hex(entry.number));
  info.source = description.given.source;
  info.destination = description.given.destination;
  info.source.offset = entry.from;
  info.destination.offset = entry.to;
  info.source.bytes = info.destination.bytes = info.bytes = entry.bytes;
  info.owner = ring.owner.ToString();
  info.create_time = WallTimeOf(entry.taken);
  info.end_time = WallTimeOf(entry.ended);
  info.plan = plan;
  Receipt& receipt = info.receipt;
  receipt.path = plan.path.name;
  receipt.refused = plan.refused;
  receipt.registration = description.access.registration;
  receipt.key = description.access.key;
  receipt.evidence["submitted"] = "ring";
  if (!description.push.empty()) {
    info.role = TransferRole::kSource;
    receipt.evidence["steps"] =
        "as planned by node " + description.peer + ", which made the copies";
  }
  receipt.negotiation_seconds = Seconds(entry.begun - entry.taken);
  if (outcome.ok()) {
    info.bytes_done = entry.bytes;
    receipt.seconds = Seconds(entry.ended - entry.begun);
    const StepList steps = description.steps->Get();
    for (const Step& step : *steps) receipt.steps.push_back({step, entry.bytes});
  }
  receipt.attempts.push_back(
      {plan.path.name, outcome.ok() ? "SUCCEEDED" : outcome.reason(), info.bytes_done});
  auto record = parts_.transfers.Add(std::move(info), ring.owner, parts_.context.node());
  if (record.ok()) parts_.transfers.Conclude(**record, outcome);
}

}  // namespace onecopy::engine
