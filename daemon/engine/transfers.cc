#include "daemon/engine/transfers.h"

#include <utility>

#include "daemon/engine/names.h"
#include "daemon/engine/paging.h"
#include "transport/core/reasons.h"

namespace onecopy::engine {
namespace {

constexpr std::chrono::milliseconds kTick{100};

// Newest first, yet pages go by growing keys: the key falls as the number grows.
std::string PageKey(uint64_t number) {
  std::string text = std::to_string(UINT64_MAX - number);
  return std::string(20 - text.size(), '0') + text;
}

}  // namespace

TransferRecord* Transfers::Find(const TransferId& id) {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : found->second.get();
}

Result<TransferRecord*> Transfers::Add(TransferInfo info, Owner owner, std::string orderer) {
  const TransferId id = info.id;
  auto [place, added] = records_.try_emplace(id);
  if (!added) {
    return Status(Code::kAlreadyExists, reasons::kNameTaken,
                  "there is a transfer " + Printable(id.str()) + " already");
  }
  place->second = std::make_unique<TransferRecord>();
  TransferRecord& record = *place->second;
  record.info = std::move(info);
  record.owner = std::move(owner);
  record.orderer = std::move(orderer);
  record.number = next_number_++;
  by_number_[record.number] = &record;
  return &record;
}

void Transfers::Drop(const TransferId& id) {
  const auto found = records_.find(id);
  if (found == records_.end()) return;
  by_number_.erase(found->second->number);
  context_.loop.Post([dropped = std::move(found->second)] {});
  records_.erase(found);
}

void Transfers::BeginRun(TransferRecord& record, std::shared_ptr<Run> run) {
  record.run = std::move(run);
  ++running_;
  if (timer_ == 0) timer_ = context_.loop.RunAfter(kTick, [this] { Tick(); });
}

void Transfers::EndRun(TransferRecord& record) {
  if (record.run == nullptr) return;
  // It may be the run itself that asks: let it return first.
  context_.loop.Post([run = std::move(record.run)] {});
  record.run = nullptr;
  if (--running_ > 0) return;
  context_.loop.CancelTimer(std::exchange(timer_, 0));
  for (Task& idle : std::exchange(idle_, {})) context_.loop.Post(std::move(idle));
}

void Transfers::OnIdle(Task idle) {
  if (running_ == 0) return context_.loop.Post(std::move(idle));
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
  for (const auto& [number, record] : by_number_) {
    if (record->run != nullptr) running.push_back(record);
  }
  return running;
}

std::vector<TransferRecord*> Transfers::Unfinished() {
  std::vector<TransferRecord*> unfinished;
  for (const auto& [number, record] : by_number_) {
    if (!IsFinal(record->info.state)) unfinished.push_back(record);
  }
  return unfinished;
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
  if (is_final && !record.info.end_time) record.info.end_time = std::chrono::system_clock::now();
  const TransferId id = record.info.id;
  const auto watched = watches_of_.find(id);
  if (watched != watches_of_.end()) {
    const std::set<ClientApi::WatchId> watches = watched->second;
    for (const ClientApi::WatchId watch : watches) {
      const auto entry = watches_.find(watch);
      if (entry != watches_.end()) entry->second.update(record.info);
      if (is_final) Unwatch(watch);
    }
  }
  if (is_final) File(record);
}

void Transfers::File(TransferRecord& record) {
  if (!filed_.insert(record.info.id).second) return;
  if (final_) final_(record);
  ended_.push_back(record.info.id);
  while (ended_.size() > context_.options.keep_transfers) {
    const TransferId oldest = ended_.front();
    const auto found = records_.find(oldest);
    if (found->second->run != nullptr) return;  // it is still letting go
    ended_.pop_front();
    filed_.erase(oldest);
    by_number_.erase(found->second->number);
    // The caller may hold a pointer to this very record.
    context_.loop.Post([forgotten = std::move(found->second)] {});
    records_.erase(found);
  }
}

Result<ClientApi::WatchId> Transfers::Watch(const TransferId& id,
                                            std::function<void(const TransferInfo&)> update) {
  const TransferRecord* record = Find(id);
  if (record == nullptr) {
    return Status(Code::kNotFound, reasons::kTransferNotFound,
                  "node " + context_.node() + " knows no transfer " + Printable(id.str()),
                  "onecopy transfer ls shows those it knows");
  }
  const ClientApi::WatchId watch = next_watch_++;
  if (!IsFinal(record->info.state)) {
    watches_[watch] = {id, update};
    watches_of_[id].insert(watch);
  }
  const TransferInfo now = record->info;
  update(now);
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

Result<Page<TransferInfo>> Transfers::List(
    const PageRequest& page, const std::function<bool(const TransferRecord&)>& wanted) const {
  return TakePage<TransferInfo>(
      page, by_number_, [](const auto& entry) { return PageKey(entry.first); },
      [&](const auto& entry) { return wanted(*entry.second); },
      [](const auto& entry) { return entry.second->info; });
}

}  // namespace onecopy::engine
