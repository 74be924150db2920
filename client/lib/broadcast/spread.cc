#include "client/lib/broadcast/spread.h"

#include <algorithm>
#include <optional>

#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

// Between two looks at what moves and whether to stop.
constexpr std::chrono::milliseconds kLook{100};

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
      chain_(buffers_.size(), pieces.count(), direct, request.retry_for),
      copies_(buffers_.size()),
      progress_(buffers_.size()) {
  for (size_t member = 1; member < buffers_.size(); ++member) {
    copies_[member].destination = buffers_[member].whole();
    progress_[member].sums.resize(pieces_.count());
  }
}

Spread::~Spread() {
  for (const auto& [take, each] : under_way_) each.transfer.Cancel();
  for (const auto& [take, each] : under_way_) static_cast<void>(each.transfer.Get());
}

std::vector<BroadcastCopy> Spread::Run(const OnBroadcast& on_update) {
  for (;;) {
    for (const Chain::Take& take : chain_.Due(Clock::now())) Begin(take);
    if (chain_.done()) break;
    std::vector<std::pair<Chain::Take, Result<TransferInfo>>> ended;
    {
      std::unique_lock lock(news_->mutex);
      news_->changed.wait_for(lock, kLook, [&] { return !news_->ended.empty(); });
      ended.swap(news_->ended);
    }
    for (const auto& [take, outcome] : ended) End(take, outcome);
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
  request.deadline = waiter_.Remaining();
  TransferCallbacks callbacks;
  callbacks.on_update = [news = news_, take](const TransferInfo& transfer) {
    const std::lock_guard lock(news->mutex);
    news->bytes_done[take] = transfer.bytes_done;
  };
  callbacks.on_end = [news = news_, take](const Result<TransferInfo>& outcome) {
    const std::lock_guard lock(news->mutex);
    news->bytes_done.erase(take);
    news->ended.emplace_back(take, outcome);
    news->changed.notify_all();
  };
  const auto [place, is_new] = under_way_.try_emplace(take);
  Result<TransferFuture> started = client_.RunTransferAsync(request, std::move(callbacks));
  if (!started.ok()) return End(take, started.status());
  place->second.transfer = std::move(*started);
}

void Spread::End(const Chain::Take& take, const Result<TransferInfo>& ended) {
  const Clock::time_point now = Clock::now();
  const auto found = under_way_.find(take);
  if (found == under_way_.end()) return;  // it was given up
  const bool stood_still = found->second.cancel_time.has_value();
  under_way_.erase(found);
  Status outcome = ended.ok() ? OutcomeOf(*ended) : ended.status();
  if (stood_still && !is_stopped_ && outcome.code() == Code::kCancelled) outcome = StoodStill(take);
  if (!outcome.ok()) {
    if (IsLimit(outcome)) return chain_.PutOff(take, now);
    return chain_.Failed(take, outcome, now);
  }
  chain_.Arrived(take, now);
  BroadcastCopy& copy = copies_[take.to];
  const uint64_t bytes = pieces_.BytesOf(take.piece);
  copy.bytes += bytes;
  MergeReceipt(ended->receipt, copy.receipt);
  copy.receipt.seconds = std::chrono::duration<double>(now - begun_).count();
  progress_[take.to].from[take.from] += bytes;
  if (ended->receipt.checksum) progress_[take.to].sums[take.piece] = *ended->receipt.checksum;
}

void Spread::LookAtProgress() {
  const Clock::time_point now = Clock::now();
  std::map<Chain::Take, uint64_t> bytes_done;
  {
    const std::lock_guard lock(news_->mutex);
    bytes_done = news_->bytes_done;
  }
  for (auto& [take, each] : under_way_) {
    const auto told = bytes_done.find(take);
    if (told == bytes_done.end() || told->second <= each.bytes_done) continue;
    each.bytes_done = told->second;
    chain_.Moved(take.to, now);
  }
}

void Spread::LookAtWhatStands() {
  const Clock::time_point now = Clock::now();
  std::vector<Chain::Take> given_up;
  for (auto& [take, each] : under_way_) {
    if (each.cancel_time) {
      if (now - *each.cancel_time >= Chain::kPatience) given_up.push_back(take);
    } else if (chain_.IsStuck(take, now) || (chain_.IsStill(take.to, now) &&
                                             !(IsConnected(take.from) && IsConnected(take.to)))) {
      each.cancel_time = now;
      each.transfer.Cancel();
    }
  }
  // The daemon would wait much longer for the node that decides about it.
  for (const Chain::Take& take : given_up) End(take, StoodStill(take));
}

bool Spread::IsConnected(size_t member) const {
  const std::string& node = buffers_[member].buffer.node;
  if (node == client_.node()) return true;
  const Result<NodeInfo> info = client_.GetNode(node);
  return info.ok() && info->state == NodeState::kConnected;
}

Status Spread::StoodStill(const Chain::Take& take) const {
  return {Code::kUnavailable, reasons::kPeerDown,
          "nothing has come from " + NameOf(take.from) + " to " + NameOf(take.to) + " for " +
              std::to_string(Chain::kPatience.count()) + " s"};
}

void Spread::StopAll(const Status& why) {
  if (is_stopped_) return;
  is_stopped_ = true;
  for (size_t member = 1; member < buffers_.size(); ++member) {
    if (!chain_.has_all(member)) chain_.GiveUp(member, why);
  }
  for (auto& [take, each] : under_way_) {
    each.transfer.Cancel();
    if (!each.cancel_time) each.cancel_time = Clock::now();
  }
}

void Spread::Tell(const OnBroadcast& on_update) const {
  if (!on_update) return;
  uint64_t done = 0;
  for (const BroadcastCopy& copy : copies_) done += copy.bytes;
  for (const auto& [take, each] : under_way_) done += each.bytes_done;
  on_update(done, pieces_.bytes * (buffers_.size() - 1));
}

std::string Spread::NameOf(size_t member) const {
  return buffers_[member].buffer.node + ":" + buffers_[member].buffer.name;
}

void Spread::Finish(size_t member) {
  BroadcastCopy& copy = copies_[member];
  Progress& progress = progress_[member];
  Receipt& receipt = copy.receipt;
  receipt.asked_seconds = receipt.seconds;
  if (receipt.seconds > 0) {
    receipt.bytes_per_second = static_cast<double>(copy.bytes) / receipt.seconds;
  }
  for (const auto& [from, why] : chain_.passed_over(member)) progress.from.try_emplace(from, 0);
  for (const auto& [from, bytes] : progress.from) {
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
    return;
  }
  if (!request_.checksum) return;
  ChecksumResult whole = progress.sums.front();
  if (pieces_.count() > 1) {
    whole.algorithm += " of each " + std::to_string(pieces_.piece_bytes) + " B";
    for (size_t piece = 1; piece < progress.sums.size(); ++piece) {
      whole.value += progress.sums[piece].value;
      whole.verified = whole.verified && progress.sums[piece].verified;
    }
  }
  receipt.checksum = std::move(whole);
}

}  // namespace onecopy::client
