#include "client/lib/broadcast/spread.h"

#include <algorithm>
#include <optional>

#include "client/lib/calls/call_limit.h"
#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

// Between two looks at what moves and whether to stop.
constexpr std::chrono::milliseconds kLook{100};
// How long a node counts as connected, or not, and may take to be looked at.
constexpr std::chrono::seconds kLookAtNodes{1};

bool IsLimit(const Status& status) {
  return status.code() == Code::kResourceExhausted && status.reason() == reasons::kQuota;
}

}  // namespace

uint64_t Pieces::BytesOf(size_t piece) const {
  return std::min(piece_bytes, bytes - piece * piece_bytes);
}

Spread::Spread(Client& client, const BroadcastRequest& request, const Waiter& waiter,
               std::vector<RemoteRange> buffers, const Pieces& pieces, bool direct)
    : client_(client),
      request_(request),
      waiter_(waiter),
      buffers_(std::move(buffers)),
      pieces_(pieces),
      begun_(Clock::now()),
      chain_(buffers_.size(), pieces.count(), direct,
             std::min<std::chrono::milliseconds>(request.retry_for, std::chrono::hours(24 * 365))),
      copies_(buffers_.size()),
      origins_(buffers_.size()) {
  for (size_t member = 1; member < buffers_.size(); ++member) {
    copies_[member].destination = buffers_[member].whole();
  }
}

Spread::~Spread() {
  for (const auto& [number, each] : under_way_) each.transfer.Cancel();
  const Clock::time_point until = Clock::now() + Chain::kPatience;
  for (const auto& [number, each] : under_way_) {
    static_cast<void>(each.transfer.WaitFor(until - Clock::now()));
  }
}

std::vector<BroadcastCopy> Spread::Run(const OnBroadcast& on_update) {
  for (;;) {
    for (const Chain::Take& take : chain_.Due(Clock::now())) Begin(take);
    if (chain_.done()) break;
    std::vector<std::pair<Number, Result<TransferInfo>>> ended;
    {
      std::unique_lock lock(news_->mutex);
      news_->changed.wait_for(lock, kLook, [&] { return !news_->ended.empty(); });
      ended.swap(news_->ended);
    }
    for (const auto& [number, outcome] : ended) End(number, outcome);
    LookAtProgress();
    LookAtWhatStands();
    Tell(on_update);
    if (const Status over = waiter_.Check(); !over.ok()) StopAll(over);
  }
  for (size_t member = 1; member < buffers_.size(); ++member) Finish(member);
  copies_.erase(copies_.begin());
  return std::move(copies_);
}

void Spread::Begin(const Chain::Take& take) {
  const uint64_t at = take.piece * pieces_.piece_bytes;
  const uint64_t bytes = pieces_.BytesOf(take.piece);
  TransferRequest request;
  request.source = buffers_[take.from].Piece(at, bytes);
  request.destination = buffers_[take.to].Piece(at, bytes);
  request.policy = request_.policy;
  request.checksum = request_.checksum;
  request.trace = request_.trace;
  if (const auto left = waiter_.Remaining()) {
    request.deadline = std::max(*left, std::chrono::milliseconds(1));
  }
  const Number number = next_number_++;
  TransferCallbacks callbacks;
  callbacks.on_update = [news = news_, number](const TransferInfo& transfer) {
    const std::lock_guard lock(news->mutex);
    news->bytes_done[number] = transfer.bytes_done;
  };
  callbacks.on_end = [news = news_, number](const Result<TransferInfo>& outcome) {
    const std::lock_guard lock(news->mutex);
    news->bytes_done.erase(number);
    news->ended.emplace_back(number, outcome);
    news->changed.notify_all();
  };
  Result<TransferFuture> started = client_.RunTransferAsync(request, std::move(callbacks));
  if (!started.ok()) return Note(take, started.status(), false);
  under_way_.emplace(number, UnderWay{take, std::move(*started), 0, {}});
}

void Spread::End(Number number, const Result<TransferInfo>& ended) {
  const auto found = under_way_.find(number);
  if (found == under_way_.end()) return;  // it was given up
  const UnderWay each = std::move(found->second);
  under_way_.erase(found);
  Note(each.take, ended, each.cancel_time.has_value());
}

void Spread::Note(const Chain::Take& take, const Result<TransferInfo>& ended, bool stood_still) {
  const Clock::time_point now = Clock::now();
  Status outcome = ended.ok() ? OutcomeOf(*ended) : ended.status();
  if (!outcome.ok()) {
    if (IsLimit(outcome)) return chain_.PutOff(take, outcome, now);
    if (stood_still && !is_stopped_ && outcome.code() == Code::kCancelled) {
      outcome = StoodStill(take);
    }
    return chain_.Failed(take, outcome, now);
  }
  chain_.Arrived(take, now);
  BroadcastCopy& copy = copies_[take.to];
  const uint64_t bytes = pieces_.BytesOf(take.piece);
  const bool was_verified =
      copy.bytes == 0 || (copy.receipt.checksum && copy.receipt.checksum->verified);
  copy.bytes += bytes;
  MergeReceipt(ended->receipt, copy.receipt);
  copy.receipt.seconds = std::chrono::duration<double>(now - begun_).count();
  origins_[take.to][take.from] += bytes;
  if (!ended->receipt.checksum) return;
  copy.receipt.checksum = ended->receipt.checksum;
  if (pieces_.count() == 1) return;
  ChecksumResult& sum = *copy.receipt.checksum;
  sum.algorithm += " of each " + std::to_string(pieces_.piece_bytes) + " B";
  sum.value.clear();
  sum.verified = sum.verified && was_verified;
}

void Spread::LookAtProgress() {
  const Clock::time_point now = Clock::now();
  std::map<Number, uint64_t> bytes_done;
  {
    const std::lock_guard lock(news_->mutex);
    bytes_done = news_->bytes_done;
  }
  for (auto& [number, each] : under_way_) {
    const auto told = bytes_done.find(number);
    if (told == bytes_done.end() || told->second <= each.bytes_done) continue;
    each.bytes_done = told->second;
    chain_.Moved(each.take.to, now);
  }
}

void Spread::LookAtWhatStands() {
  const Clock::time_point now = Clock::now();
  std::vector<std::pair<Number, Chain::Take>> given_up;
  for (auto& [number, each] : under_way_) {
    const Chain::Take& take = each.take;
    if (each.cancel_time) {
      if (now - *each.cancel_time >= Chain::kPatience) given_up.emplace_back(number, take);
    } else if (chain_.IsStuck(take, now) || (chain_.IsStill(take.to, now) &&
                                             !(IsConnected(take.from) && IsConnected(take.to)))) {
      each.cancel_time = now;
      each.transfer.Cancel();
    }
  }
  // The daemon would wait much longer for the node that decides about it.
  for (const auto& [number, take] : given_up) End(number, StoodStill(take));
}

bool Spread::IsConnected(size_t member) {
  const std::string& node = buffers_[member].buffer.node;
  if (node == client_.node()) return true;
  const Clock::time_point now = Clock::now();
  const auto [known, is_new] = connected_.try_emplace(node);
  if (is_new || now - known->second.looked >= kLookAtNodes) {
    const CallLimit limit(now + kLookAtNodes);
    const Result<NodeInfo> info = client_.GetNode(node);
    known->second = {Clock::now(), info.ok() && info->state == NodeState::kConnected};
  }
  return known->second.is;
}

Status Spread::StoodStill(const Chain::Take& take) const {
  return {Code::kUnavailable, reasons::kPeerDown,
          "nothing has come from " + NameOf(take.from) + " to " + NameOf(take.to) + " for " +
              std::to_string(Chain::kPatience.count()) + " s"};
}

void Spread::StopAll(const Status& why) {
  if (is_stopped_) return;
  is_stopped_ = true;
  const Clock::time_point now = Clock::now();
  for (size_t member = 1; member < buffers_.size(); ++member) {
    if (!chain_.has_all(member)) chain_.GiveUp(member, why, now);
  }
  for (auto& [number, each] : under_way_) {
    each.transfer.Cancel();
    if (!each.cancel_time) each.cancel_time = now;
  }
}

void Spread::Tell(const OnBroadcast& on_update) {
  if (!on_update) return;
  uint64_t done = 0;
  for (const BroadcastCopy& copy : copies_) done += copy.bytes;
  for (const auto& [number, each] : under_way_) done += each.bytes_done;
  told_ = std::max(told_, done);  // a piece that is moved once more does not count back
  on_update(told_, pieces_.bytes * (buffers_.size() - 1));
}

std::string Spread::NameOf(size_t member) const {
  return buffers_[member].buffer.node + ":" + buffers_[member].buffer.name;
}

void Spread::Finish(size_t member) {
  BroadcastCopy& copy = copies_[member];
  Receipt& receipt = copy.receipt;
  receipt.asked_seconds = receipt.seconds;
  if (receipt.seconds > 0) {
    receipt.bytes_per_second = static_cast<double>(copy.bytes) / receipt.seconds;
  }
  std::map<size_t, uint64_t> from_where = origins_[member];
  for (const auto& [from, why] : chain_.passed_over(member)) from_where.try_emplace(from, 0);
  for (const auto& [from, bytes] : from_where) {
    const auto told = chain_.passed_over(member).find(from);
    Status left;
    if (told != chain_.passed_over(member).end()) {
      left = told->second;
    } else if (bytes < pieces_.bytes && chain_.failure(from)) {
      left = *chain_.failure(from);
    }
    copy.origins.push_back({NameOf(from), bytes, left});
  }
  if (const std::optional<Status>& failure = chain_.failure(member)) {
    copy.outcome = failure->WithContext(NameOf(member) + " has " + std::to_string(copy.bytes) +
                                        " of " + std::to_string(pieces_.bytes) + " bytes");
  }
}

}  // namespace onecopy::client
