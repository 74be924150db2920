#include "daemon/engine/transfers/transfers.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "daemon/engine/base/footprint.h"
#include "daemon/engine/base/names.h"
#include "daemon/engine/base/paging.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/core/base/duration.h"

namespace onecopy::engine {
namespace {

constexpr std::chrono::milliseconds kTick{100};
// For a client that has not asked yet how its transfer ended.
constexpr std::chrono::seconds kUntilHeard{5};

uint64_t BytesOf(const TransferRecord& record) { return sizeof record + FootprintOf(record.info); }

// Newest first, yet pages go by growing keys: the key falls as the number grows.
std::string PageKey(uint64_t number) {
  std::string text = std::to_string(UINT64_MAX - number);
  return std::string(20 - text.size(), '0') + text;
}

// And back; the greatest, before which none is, for what is no key.
uint64_t NumberOf(const std::string& key) {
  uint64_t turned = 0;
  const char* const end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data(), end, turned);
  return error == std::errc() && stop == end && !key.empty() ? UINT64_MAX - turned : UINT64_MAX;
}

// Only what has moved has a rate.
void NoteRate(TransferInfo& info) {
  const bool all = info.state == TransferState::kSucceeded;
  const auto moved = static_cast<double>(all ? info.bytes : info.bytes_done);
  if (info.receipt.seconds > 0) info.receipt.bytes_per_second = moved / info.receipt.seconds;
}

void LogEnd(const TransferInfo& info) {
  const Receipt& receipt = info.receipt;
  const std::string& path = receipt.path.empty() && info.plan ? info.plan->path : receipt.path;
  // A series says for all of its parts how it ended.
  const bool part = !info.part_of.empty();
  const auto level = part              ? log::Level::kDebug
                     : info.error.ok() ? log::Level::kInfo
                                       : log::Level::kWarning;
  log::Write(level, part ? "part ended" : "transfer ended",
             {{"transfer", info.id},
              {"role", RoleName(info.role)},
              {"owner", info.owner},
              {"from", info.source.ToString()},
              {"to", info.destination.ToString()},
              {"path", path},
              {"copies", receipt.steps.size()},
              {"bytes", info.bytes_done},
              {"seconds", receipt.seconds},
              {"parts", info.parts},
              {"outcome", info.error.ToString()},
              {"trace", info.trace}});
}

}  // namespace

void TransferRecord::BeganBefore() {
  const auto waited = std::max<WallTime::duration>(
      std::chrono::system_clock::now() - info.create_time, WallTime::duration(0));
  created -= std::chrono::duration_cast<os::Clock::duration>(waited);
  asked = created;
}

Transfers::Transfers(Context& context)
    : context_(context), ended_(context.ledger, context.options.keep_transfers) {}

TransferRecord* Transfers::Find(const TransferId& id) {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : found->second.get();
}

Owner Transfers::PayerOf(const TransferRecord& record) const {
  return PayerAt(context_.node(), record.initiator, record.owner);
}

Flow Transfers::FlowOf(const TransferRecord& record) const {
  Flow flow = context_.flows.Of(record.owner, record.initiator);
  flow.waiting = std::make_shared<std::atomic<int64_t>>(0);
  return flow;
}

std::shared_ptr<TransferPace> Transfers::PaceOf(const TransferRecord& record,
                                                uint64_t own_bytes_per_second) const {
  const TransferId& whole = record.info.part_of.empty() ? record.info.id : record.info.part_of;
  return context_.paces.Of(context_.flows, record.owner, record.initiator,
                           {whole.str(), own_bytes_per_second});
}

Result<Ledger::Charge> Transfers::Take(const Owner& owner, const std::string& initiator,
                                       bool administrator, uint64_t bytes) {
  const Owner payer = PayerAt(context_.node(), initiator, owner);
  const bool unlimited = administrator && context_.IsSelf(initiator);
  auto charge = context_.ledger.Take(Charged::kTransfers, payer, unlimited, bytes);
  if (charge.ok() || !unheard_.contains(payer)) return charge;
  // Ends that were not requested keep no new transfer waiting.
  while (unheard_.contains(payer)) Shelve(*unheard_[payer].begin()->second);
  return context_.ledger.Take(Charged::kTransfers, payer, unlimited, bytes);
}

Result<TransferRecord*> Transfers::Add(TransferInfo info, Owner owner, std::string initiator,
                                       Ledger::Charge charge) {
  const TransferId id = info.id;
  // The other node knows what the ids of a ring begin with that has a route there.
  if (!context_.IsSelf(initiator) && MayBeOfRing(id)) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "node " + initiator + " has chosen the id " + Printable(id.str()) +
                      ", and only transfers by rings of node " + context_.node() +
                      " have such ids here");
  }
  auto [place, added] = records_.try_emplace(id);
  if (!added) {
    return Status(Code::kAlreadyExists, reasons::kNameTaken,
                  "there is a transfer " + Printable(id.str()) + " already");
  }
  place->second = std::make_unique<TransferRecord>();
  TransferRecord& record = *place->second;
  record.info = std::move(info);
  record.owner = std::move(owner);
  record.initiator = std::move(initiator);
  record.number = next_number_++;
  record.charge = std::move(charge);
  record.held_bytes = record.charge.bytes();
  record.charge.SetBytes(record.held_bytes + FootprintOf(record.info));
  by_number_[record.number] = &record;
  by_owner_[record.owner][record.number] = &record;
  return &record;
}

void Transfers::Drop(const TransferId& id) {
  TransferRecord* record = Find(id);
  if (record == nullptr) return;
  EndRun(*record);
  Erase(*record);
}

void Transfers::Erase(TransferRecord& record) {
  Hear(record);
  by_number_.erase(record.number);
  const auto owned = by_owner_.find(record.owner);
  owned->second.erase(record.number);
  if (owned->second.empty()) by_owner_.erase(owned);
  const auto found = records_.find(record.info.id);
  if (forgotten_) forgotten_(record.info.id);
  // The caller may hold a pointer to this very record.
  context_.loop.Post([erased = std::move(found->second)] {});
  records_.erase(found);
}

void Transfers::BeginRun(TransferRecord& record, std::shared_ptr<Run> run) {
  record.run = std::move(run);
  running_[record.number] = &record;
  if (record.series) ++running_series_;
  if (!record.series) ++begun_;
  if (timer_ == 0) timer_ = context_.loop.RunAfter(kTick, [this] { Tick(); });
}

void Transfers::EndRun(TransferRecord& record) {
  if (record.run == nullptr) return;
  // It may be the run itself that asks: let it return first.
  context_.loop.Post([run = std::move(record.run)] {});
  record.run = nullptr;
  running_.erase(record.number);
  if (record.series) --running_series_;
  if (!record.series) moved_ = os::Clock::now();
  if (record.forget) {
    context_.loop.Post([this, id = record.info.id, number = record.number] {
      const TransferRecord* left = Find(id);
      if (left != nullptr && left->number == number) Forget(id);
    });
  }
  if (!running_.empty()) return;
  context_.loop.CancelTimer(std::exchange(timer_, 0));
  for (Task& idle : std::exchange(idle_, {})) context_.loop.Post(std::move(idle));
}

void Transfers::OnIdle(Task idle) {
  if (running_.empty()) return context_.loop.Post(std::move(idle));
  idle_.push_back(std::move(idle));
}

void Transfers::Tick() {
  timer_ = context_.loop.RunAfter(kTick, [this] { Tick(); });
  for (TransferRecord* record : Running()) {
    if (record->run != nullptr) record->run->Tick();
  }
}

std::vector<TransferRecord*> Transfers::Running() {
  std::vector<TransferRecord*> running;
  running.reserve(running_.size());
  for (const auto& [number, record] : running_) running.push_back(record);
  return running;
}

void Transfers::ForEachRunning(size_t most,
                               const std::function<void(const TransferRecord&)>& see) const {
  for (const auto& [number, record] : running_) {
    if (most-- == 0) return;
    see(*record);
  }
}

void Transfers::Conclude(TransferRecord& record, const Status& outcome) {
  record.info.error = outcome;
  record.info.state = outcome.ok()                         ? TransferState::kSucceeded
                      : outcome.code() == Code::kCancelled ? TransferState::kCancelled
                                                           : TransferState::kFailed;
  Changed(record);
}

void Transfers::Changed(TransferRecord& record) {
  const bool is_final = IsFinal(record.info.state);
  NoteRate(record.info);
  if (is_final && !record.info.end_time) {
    record.info.receipt.asked_seconds = ToSeconds(os::Clock::now() - record.asked);
  }
  record.charge.SetBytes(record.held_bytes + FootprintOf(record.info));
  if (record.remembered != nullptr) record.remembered->SetBytes(BytesOf(record));
  if (is_final && !record.info.end_time) {
    record.info.end_time = record.info.create_time + std::chrono::duration_cast<WallTime::duration>(
                                                         os::Clock::now() - record.created);
  }
  const TransferId id = record.info.id;
  const auto watched = watches_of_.find(id);
  if (watched != watches_of_.end()) {
    const std::set<ClientApi::WatchId> watches = watched->second;
    for (const ClientApi::WatchId watch : watches) {
      const auto entry = watches_.find(watch);
      if (entry == watches_.end()) continue;
      record.heard = record.heard || (is_final && entry->second.tells_client);
      entry->second.update(record.info);
      if (is_final) Unwatch(watch);
    }
  }
  if (is_final) File(record);
}

void Transfers::Forget(const TransferId& id) {
  TransferRecord* record = Find(id);
  if (record == nullptr) return;
  record->forget = true;
  if (record->run == nullptr) Erase(*record);
}

bool Transfers::Remember(const TransferId& id) {
  TransferRecord& record = *Find(id);
  Result<Ledger::Charge> charge =
      context_.ledger.Take(Charged::kHistory, PayerOf(record), false, BytesOf(record));
  if (!charge.ok()) return false;
  record.charge = std::move(*charge);
  record.held_bytes = sizeof record;
  return true;
}

void Transfers::File(TransferRecord& record) {
  if (std::exchange(record.filed, true)) return;
  if (record.logged && !record.forget) LogEnd(record.info);
  const bool kept = record.info.part_of.empty() && !record.forget;
  // One that was shelved before its end was known stays where it is.
  const bool waits = kept && !record.heard && !record.shelved && context_.IsSelf(record.initiator);
  if (!waits) record.charge.GiveBack();
  if (final_) final_(record);  // which may forget it, if it is a part
  if (waits) {
    ShelveLater(record);
  } else if (kept) {
    Shelve(record);
  }
}

// A client that starts thousands of transfers may ask for the first one's end after more of them
// have ended than the history keeps.
void Transfers::ShelveLater(TransferRecord& record) {
  const Owner payer = PayerOf(record);
  unheard_[payer].emplace(record.number, &record);
  context_.loop.RunAfter(kUntilHeard, [this, id = record.info.id, number = record.number] {
    TransferRecord* const left = Find(id);
    if (left != nullptr && left->number == number) Shelve(*left);
  });
  if (record.charge.administrator()) return;  // shares do not bind it
  // The payer's share has room for other things beside them: a ticket, or the question for an end.
  const uint64_t most = context_.ledger.ByteLimit(Charged::kTransfers).each / 4 * 3;
  while (unheard_.contains(payer) && context_.ledger.SharedBytes(payer) > most) {
    Shelve(*unheard_[payer].begin()->second);
  }
}

bool Transfers::Hear(TransferRecord& record) {
  const auto unheard = unheard_.find(PayerOf(record));
  if (unheard == unheard_.end() || unheard->second.erase(record.number) == 0) return false;
  if (unheard->second.empty()) unheard_.erase(unheard);
  return true;
}

void Transfers::Shelve(TransferRecord& record) {
  Hear(record);
  if (std::exchange(record.shelved, true)) return;
  record.charge.GiveBack();
  auto filed = ended_.Add(PayerOf(record), record.info.id, BytesOf(record));
  record.remembered = std::move(filed.charge);
  for (const TransferId& oldest : filed.forgotten) Forget(oldest);
}

Result<ClientApi::WatchId> Transfers::Watch(const TransferId& id,
                                            std::function<void(const TransferInfo&)> update,
                                            bool tells_client) {
  TransferRecord* record = Find(id);
  if (record == nullptr) {
    return Status(Code::kNotFound, reasons::kTransferNotFound,
                  "node " + context_.node() + " does not know transfer " + Printable(id.str()),
                  "onecopy transfer ls lists those it knows");
  }
  const ClientApi::WatchId watch = next_watch_++;
  if (!IsFinal(record->info.state)) {
    watches_[watch] = {id, update, tells_client};
    watches_of_[id].insert(watch);
  }
  const TransferInfo now = record->info;
  update(now);
  if (tells_client && Hear(*record)) Shelve(*record);
  return watch;
}

void Transfers::Unwatch(ClientApi::WatchId watch) {
  const auto entry = watches_.find(watch);
  if (entry == watches_.end()) return;
  const auto of = watches_of_.find(entry->second.id);
  of->second.erase(watch);
  if (of->second.empty()) watches_of_.erase(of);
  watches_.erase(entry);
}

Result<Page<TransferInfo>> Transfers::List(const PageRequest& page, const Principal& who,
                                           const Owners& owners) const {
  if (who.administrator) return TakePage(page, by_number_);
  ByNumber records;
  owners.ForEachSame(by_owner_, OwnerOf(who),
                     [&](const ByNumber& of_one) { records.insert(of_one.begin(), of_one.end()); });
  return TakePage(page, records);
}

Result<Page<TransferInfo>> Transfers::TakePage(const PageRequest& page, const ByNumber& records) {
  const auto from = records.upper_bound(NumberOf(page.token));
  return engine::TakePage<TransferInfo>(
      page, From<ByNumber::const_iterator>{from, records.end()},
      [](const auto& entry) { return PageKey(entry.first); },
      [](const auto& entry) { return entry.second->info.part_of.empty(); },
      [](const auto& entry) { return entry.second->info; });
}

}  // namespace onecopy::engine
