#include "daemon/engine/transfers/bundle_run.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/engine/staging/checksum.h"
#include "onecopy/reasons.h"
#include "transport/core/base/duration.h"
#include "transport/digest/tree.h"

namespace onecopy::engine {
namespace {

// Enough that one part's negotiation goes on beside another one's bytes.
constexpr size_t kPartsAtOnce = 8;

}  // namespace

BundleRun::BundleRun(const Needs& needs, Params params, std::shared_ptr<Reporter> reporter)
    : needs_(needs), params_(std::move(params)), reporter_(std::move(reporter)) {
  sums_.resize(params_.parts.size());
}

TransferRecord& BundleRun::record() { return *needs_.transfers.Find(params_.id); }

void BundleRun::Start() {
  for (const BufferId buffer : params_.buffers) needs_.buffers.Hold(buffer, params_.id);
  GoOn();
}

void BundleRun::GoOn() {
  while (outcome_.ok() && under_way_.size() < kPartsAtOnce && next_ < params_.parts.size()) {
    BeginPart(next_++);
  }
  if (under_way_.empty()) End();
}

// It may end before it has been begun: OnPartFinal then comes in the midst of this.
void BundleRun::BeginPart(size_t number) {
  StartRequest& part = params_.parts[number];
  if (part.asked.deadline) {
    const auto passed =
        std::chrono::duration_cast<std::chrono::milliseconds>(os::Clock::now() - accepted_);
    part.asked.deadline = std::max(*part.asked.deadline - passed, std::chrono::milliseconds(1));
  }
  under_way_[part.id] = number;
  ++record().info.parts;
  const Result<TransferInfo> begun = needs_.destinations.Accept(params_.caller, part, params_.id);
  if (begun.ok()) return;
  under_way_.erase(part.id);
  Cancel(begun.status());
}

void BundleRun::OnPartFinal(const TransferRecord& part) {
  const auto known = under_way_.find(part.info.id);
  if (known == under_way_.end()) return;
  const size_t number = known->second;
  under_way_.erase(known);
  const Receipt& receipt = part.info.receipt;
  if (part.info.state == TransferState::kSucceeded) {
    const os::Clock::time_point begun =
        part.created + std::chrono::duration_cast<os::Clock::duration>(
                           std::chrono::duration<double>(receipt.negotiation_seconds));
    first_byte_ = bytes_ == 0 ? begun : std::min(first_byte_, begun);
    bytes_ += part.info.bytes;
    MergeReceipt(receipt, receipt_);
    merged_ranges_ += receipt.merged_ranges;
    if (receipt.checksum) sums_[number] = receipt.checksum->value;
    verified_ = verified_ && receipt.checksum && receipt.checksum->verified;
  } else {
    Receipt tried;
    tried.attempts = receipt.attempts;
    MergeReceipt(tried, receipt_);
    Cancel(part.info.error);
  }
  // Not from here: it may be the beginning of this part that goes on.
  needs_.context.loop.Post([self = shared_from_this()] { self->GoOn(); });
}

void BundleRun::Cancel(const Status& why) {
  if (ended_ || !outcome_.ok()) return;
  outcome_ = why;
  const std::map<TransferId, size_t> under_way = under_way_;
  for (const auto& [id, number] : under_way) {
    const TransferRecord* part = needs_.transfers.Find(id);
    if (part != nullptr && part->run != nullptr) part->run->Cancel(why);
  }
  needs_.context.loop.Post([self = shared_from_this()] { self->GoOn(); });
}

void BundleRun::Tick() {
  TransferInfo& info = record().info;
  uint64_t bytes = bytes_;
  const TransferRecord* running = nullptr;
  const TransferRecord* moving = nullptr;
  const TransferRecord* waiting = nullptr;
  for (const auto& [id, number] : under_way_) {
    const TransferRecord* const part = needs_.transfers.Find(id);
    if (part == nullptr) continue;
    bytes += part->info.bytes_done;
    if (part->info.state == TransferState::kRunning) running = part;
    (part->info.waits_for.empty() ? moving : waiting) = part;
  }
  // Short parts may all have run between two looks.
  const bool some = running != nullptr || bytes > 0;
  const bool begins = some && info.state == TransferState::kPending;
  if (begins) {
    info.state = TransferState::kRunning;
    if (running != nullptr) info.receipt.lanes = running->info.receipt.lanes;
  }
  const bool all_wait = moving == nullptr && waiting != nullptr;
  const std::string waits_for = all_wait ? waiting->info.waits_for : std::string();
  const bool news = begins || waits_for != info.waits_for;
  if (!news && bytes == info.bytes_done) return;
  info.bytes_done = bytes;
  info.waits_for = waits_for;
  needs_.transfers.Changed(record());
  reporter_->Report(!news);
}

ChecksumResult BundleRun::WholeChecksum() const {
  std::string all;
  for (const std::string& sum : sums_) all += sum;
  return {std::string(digest::kAlgorithm) + " of " + digest::kTreeAlgorithm,
          digest::HexOf(all.data(), all.size()), verified_};
}

void BundleRun::TellArrivals() {
  TransferInfo& info = record().info;
  for (Arriving& one : params_.arriving) {
    Arrival arrival;
    arrival.transfer = info.id;
    arrival.from = info.owner;
    arrival.range = one.range;
    arrival.bytes = one.bytes;
    arrival.message = one.message;
    const bool told = needs_.arrivals.Deliver(*needs_.buffers.FindById(one.buffer),
                                              std::move(arrival), std::move(one.room));
    if (!one.message.empty() && !told) {
      info.receipt.evidence["message"] = "message not delivered: no active watcher";
    }
  }
}

void BundleRun::End() {
  if (std::exchange(ended_, true)) return;
  TransferRecord& record = this->record();
  TransferInfo& info = record.info;
  info.bytes_done = bytes_;
  info.waits_for.clear();
  if (bytes_ > 0) {
    receipt_.seconds = ToSeconds(os::Clock::now() - first_byte_);
    receipt_.negotiation_seconds = std::max(0.0, ToSeconds(first_byte_ - accepted_));
  }
  receipt_.ranges = params_.asked_ranges;
  receipt_.merged_ranges = std::max<uint64_t>(merged_ranges_, 1);
  if (params_.checksum && outcome_.ok()) receipt_.checksum = WholeChecksum();
  info.receipt = std::move(receipt_);
  if (outcome_.ok()) TellArrivals();
  params_.arriving.clear();
  for (const BufferId buffer : params_.buffers) needs_.buffers.Release(buffer, params_.id);
  needs_.transfers.Conclude(record, outcome_);
  reporter_->Report(false);
  needs_.transfers.EndRun(record);
}

}  // namespace onecopy::engine
