#include "transport/link/tcp/reads.h"

#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::tcp {
namespace {

// Asked for on one lane and not yet here: so many gets, and as many bytes as make twice what one
// transfer has under way at full speed. What waits beyond that waits here, where flows have their
// shares and what is cancelled is gone. Where gets of several compete, fewer bytes: those of one
// wait for what is under way for others. On a long way that would leave the wire idle.
constexpr size_t kMaxGetsAsked = 256;
constexpr uint64_t kTransfersAtFullSpeed = 2;
constexpr uint64_t kLessWhileCompeting = 4;  // 8 halves the others' wait, and costs bulk 15 %
constexpr std::chrono::milliseconds kFar{1};
constexpr size_t kMaxStepLists = 64;
// The daemon's memory for bytes that it has encrypted, or not decrypted yet.
constexpr const char* kSealed = "tls";

}  // namespace

Status Reads::Cancelled() {
  return {Code::kCancelled, reasons::kCancelled, "the get was cancelled"};
}

Reads::Reads(const ConnectionOptions& options, Executor& home,
             const std::vector<std::shared_ptr<Lane>>& lanes,
             const std::vector<LaneInfo>& lane_infos)
    : options_(options),
      home_(home),
      lanes_(lanes),
      lane_infos_(lane_infos),
      asked_(options.data_lanes, options.several_addresses) {
  for (size_t i = 0; i <= options.data_lanes; ++i) waiting_.emplace_back(kFairTurnBytes);
}

void Reads::OnWire(bool loopback, std::chrono::microseconds round_trip) {
  loopback_ |= loopback;
  far_ |= round_trip > kFar;
}

Status Reads::Check(const GetRequest& request, const Result<Key>& key) const {
  if (request.lane != GetRequest::kAnyLane) {
    const auto lane = static_cast<size_t>(request.lane);
    if (lane >= lane_infos_.size()) {
      return {Code::kInvalidArgument, reasons::kBadArgument,
              "the read names a lane that this tcp connection does not have"};
    }
    if (!stopped_ && lanes_[lane + 1] == nullptr) {
      return {Code::kUnavailable, reasons::kLinkDown,
              "node " + options_.peer + " does not answer at " + lane_infos_[lane].peer};
    }
  }
  if (request.into.bytes > kMaxGetBytes) {
    return {Code::kInvalidArgument, reasons::kBadSize, "a tcp get of more than 64 MiB"};
  }
  return stopped_.value_or(key.status());
}

void Reads::Start(const GetRequest& request, Connection::GetDone done) {
  const Result<Key> key = DecodeKey(*request.key);
  if (Status refused = Check(request, key); !refused.ok()) {
    return home_.Post([done = std::move(done), refused = std::move(refused)]() mutable {
      done(refused, nullptr, 0);
    });
  }
  const size_t queue = static_cast<size_t>(request.lane + 1);  // 0: any
  static_assert(GetRequest::kAnyLane == -1);
  competition_.Note(request.flow);
  Waiting waiting{request.channel,
                  {FrameKind::kGet, 0, key->id, request.key_offset, request.into.bytes},
                  request.into,
                  StepsOf(key->memory, *request.into.region),
                  std::move(done)};
  // Where nothing waits it goes at once.
  const unsigned lane = !waiting_[queue].empty() || (queue == 0 && !lost_.empty()) ? 0
                        : queue == 0     ? LaneFor(request.into.bytes)
                        : HasRoom(queue) ? static_cast<unsigned>(queue)
                                         : 0;
  if (lane != 0) return Ask(std::move(waiting), lane, queue != 0);
  waiting_[queue].Push(request.flow, request.channel, request.into.bytes + kGetCostBytes,
                       std::move(waiting));
}

void Reads::Pump() {
  if (stopped_) return;
  for (unsigned lane = 1; lane < waiting_.size(); ++lane) {
    while (!waiting_[lane].empty() && HasRoom(lane)) Ask(waiting_[lane].Pop(), lane, true);
  }
  while (!lost_.empty() || !waiting_[0].empty()) {
    const unsigned lane = LaneFor(lost_.empty() ? options_.chunk_bytes : lost_.front().into.bytes);
    if (lane == 0) return;
    if (lost_.empty()) {
      Ask(waiting_[0].Pop(), lane, false);
    } else {
      Waiting again = std::move(lost_.front());
      lost_.pop_front();
      Ask(std::move(again), lane, false);
    }
  }
}

void Reads::Ask(Waiting waiting, unsigned lane, bool named) {
  asked_.Asked(lane, waiting.into.bytes);
  const FrameHeader get = [&] {
    waiting.get.tag = next_tag_++;
    return waiting.get;
  }();
  Span into = options_.several_addresses ? waiting.into : std::move(waiting.into);
  gets_.emplace(get.tag, Outstanding{std::move(waiting), lane, named});
  const std::shared_ptr<Lane>& to = lanes_[lane];
  if (to->loop().InThread()) return to->Get(get, std::move(into));
  to->loop().Post([to, get, into = std::move(into)] { to->Get(get, into); });
}

bool Reads::HasRoom(unsigned lane) const {
  const uint64_t most = kTransfersAtFullSpeed * options_.gets_per_lane * options_.chunk_bytes;
  const bool less = competition_.on() && !far_;
  return lanes_[lane] != nullptr && asked_[lane].gets() < kMaxGetsAsked &&
         asked_[lane].bytes() < (less ? most / kLessWhileCompeting : most);
}

unsigned Reads::LaneFor(uint64_t bytes) {
  return asked_.Choose(bytes, [this](unsigned lane) { return HasRoom(lane); });
}

void Reads::MakeRoom(unsigned lane, uint64_t bytes) {
  asked_.Brought(lane, bytes);
  Pump();
}

void Reads::OnEnded(uint64_t tag, Status status, bool report_follows) {
  const auto found = gets_.find(tag);
  if (found == gets_.end()) return;
  ended_.fetch_add(1, std::memory_order_relaxed);
  if (found->second.cancelled) {
    if (status.ok()) status = Cancelled();
  } else if (status.ok() && report_follows && !found->second.copied) {
    found->second.landed = true;
    found->second.asked.into.region.reset();
    return MakeRoom(found->second.lane, found->second.asked.get.bytes);
  }
  const auto node = gets_.extract(found);
  Outstanding& get = node.mapped();
  MakeRoom(get.lane, get.asked.get.bytes);
  // A lane does not know whose it is; the reason for which the connection ends says so already.
  if (!status.ok() && !stopped_) {
    status = status.WithContext("connection with node " + options_.peer);
  }
  const bool left = report_follows && !get.copied.value_or(true);
  get.End(std::move(status), left ? get.asked.steps.left : get.asked.steps.copied);
}

void Reads::OnAbandoned(uint64_t tag) {
  auto node = gets_.extract(tag);
  if (!node.empty()) node.mapped().End(Cancelled(), nullptr);
}

// By lane 0, so not behind what the owner is sending by now; but maybe before that get ends.
void Reads::OnReport(uint64_t tag, bool copied) {
  const auto found = gets_.find(tag);
  if (found == gets_.end()) return;
  if (!found->second.landed) {
    found->second.copied = copied;
    return;
  }
  const auto node = gets_.extract(found);
  Outstanding& get = node.mapped();
  get.End(OkStatus(), copied ? get.asked.steps.copied : get.asked.steps.left);
}

void Reads::Cancel(ChannelId channel) {
  for (FairQueue<Waiting>& queue : waiting_) {
    for (Waiting& get : queue.TakeChannel(channel)) get.End(Cancelled());
  }
  std::deque<Waiting> lost;
  lost.swap(lost_);
  for (Waiting& get : lost) {
    if (get.channel != channel) {
      lost_.push_back(std::move(get));
      continue;
    }
    get.End(Cancelled());
  }
  std::map<unsigned, std::vector<uint64_t>> by_lane;
  std::vector<uint64_t> landed;
  for (auto& [tag, get] : gets_) {
    if (get.asked.channel != channel) continue;
    get.cancelled = true;
    get.asked.into.region.reset();
    (get.landed ? landed : by_lane[get.lane]).push_back(tag);
  }
  for (const uint64_t tag : landed) {
    auto node = gets_.extract(tag);
    if (!node.empty()) node.mapped().End(Cancelled(), nullptr);
  }
  for (auto& [index, tags] : by_lane) {
    const std::shared_ptr<Lane> lane = lanes_[index];
    lane->loop().Post([lane, tags = std::move(tags)] { lane->Abandon(tags); });
  }
}

void Reads::OnLaneEnded(unsigned lane, const Status& why) {
  asked_.Forget(lane);
  std::vector<Outstanding> over;
  for (auto one = gets_.begin(); one != gets_.end();) {
    if (one->second.lane != lane) {
      ++one;
      continue;
    }
    Outstanding& get = one->second;
    if (get.landed || get.cancelled || get.named) {
      over.push_back(std::move(get));
    } else {
      lost_.push_back(std::move(get.asked));
    }
    one = gets_.erase(one);
  }
  for (Outstanding& get : over) {
    // What has landed waited for a report of how it was sent: the longer way is claimed.
    get.End(get.cancelled ? Cancelled() : get.landed ? OkStatus() : why, get.asked.steps.copied);
  }
  for (Waiting& get : waiting_[lane].TakeAll()) get.End(why);
}

// Each lane has ended its gets before, at home too. What is left was asked of a lane that had
// closed already.
void Reads::EndAll() {
  const Status why = *stopped_;
  for (auto& [tag, get] : std::exchange(gets_, {})) get.End(why, nullptr);
  for (Waiting& get : std::exchange(lost_, {})) get.End(why);
  for (FairQueue<Waiting>& queue : waiting_) {
    for (Waiting& get : queue.TakeAll()) get.End(why);
  }
}

Reads::Steps Reads::StepsOf(const std::string& owner_memory, const Region& into) {
  auto name = std::make_pair(owner_memory, into.step_name());
  const auto known = steps_.find(name);
  if (known != steps_.end()) return known->second;
  if (steps_.size() >= kMaxStepLists) steps_.clear();
  std::vector<Step> all;
  std::string memory = name.first;  // at the owner's, of what its kernel copies
  if (options_.encrypted && !options_.owner_by_kernel) {
    all.push_back({.node = options_.peer, .from = memory, .to = kSealed, .by = "cpu"});
    memory = kSealed;
  }
  all.push_back({.node = options_.peer, .from = memory, .to = "kernel", .by = "cpu"});
  all.push_back({.node = options_.node,
                 .from = "kernel",
                 .to = "kernel",
                 .by = "wire",
                 .loopback = loopback_});
  const bool opened_here = options_.encrypted && !options_.own_by_kernel;
  const std::string landing = opened_here ? kSealed : name.second;
  all.push_back({.node = options_.node, .from = "kernel", .to = landing, .by = "cpu"});
  if (opened_here) {
    all.push_back({.node = options_.node, .from = landing, .to = name.second, .by = "cpu"});
  }
  // What is left where it lies is not encrypted: all but the owner's copy.
  std::vector<Step> left(all.begin() + 1, all.end());
  left.front().from = name.first;
  Steps steps{std::make_shared<const std::vector<Step>>(std::move(all)),
              std::make_shared<const std::vector<Step>>(std::move(left))};
  return steps_.emplace(std::move(name), std::move(steps)).first->second;
}

}  // namespace onecopy::tcp
