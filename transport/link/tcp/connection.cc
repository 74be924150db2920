#include "transport/link/tcp/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/link/tcp/encryption.h"
#include "transport/os/host_port.h"
#include "transport/os/silence.h"

namespace onecopy::tcp {
namespace {

// How long a withdrawal waits for the kernel to have sent, or been acknowledged, what it reads from
// where it lies; everything else is released at once.
constexpr std::chrono::seconds kRevokeLimit{10};
// Asked for on one lane and not yet here: so many gets, and as many bytes as make twice what one
// transfer has under way at full speed. What waits beyond that waits here, where flows have their
// shares and what is cancelled is gone. Where gets of several compete, fewer bytes: those of one
// wait for what is under way for others. On a long way that would leave the wire idle.
constexpr size_t kMaxGetsAsked = 256;
constexpr uint64_t kTransfersAtFullSpeed = 2;
constexpr uint64_t kLessWhileCompeting = 4;  // 8 halves the others' wait, and costs bulk 15 %
constexpr std::chrono::milliseconds kFar{1};
constexpr size_t kMaxStepLists = 64;
// Of an owner with several addresses a silent one is left sooner than one would give up the only
// one. With the lane of messages goes the connection, and its transfers begin again where they
// were.
constexpr std::chrono::seconds kLaneSilence{3};
constexpr std::chrono::seconds kMessagesSilence{5};
// The daemon's memory for bytes that it has encrypted, or not decrypted yet.
constexpr const char* kSealed = "tls";

// The kernel keeps to net.core.rmem_max and wmem_max, and doubles what it is told for its own
// needs.
void LimitBuffers(int fd, uint64_t bytes) {
  if (bytes == 0) return;
  const int half = static_cast<int>(bytes / 2);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof half);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &half, sizeof half);
}

Status Cancelled() { return {Code::kCancelled, reasons::kCancelled, "the get was cancelled"}; }

}  // namespace

TcpConnection::TcpConnection(ConnectionOptions options, os::EventLoop& home)
    : LinkConnection(home, "tcp", options.peer),
      options_(std::move(options)),
      exports_(home),
      lane_infos_(options_.data_lanes),
      lanes_(options_.data_lanes + 1),
      asked_(options_.data_lanes, options_.several_addresses),
      ends_(options_.data_lanes + 1) {
  for (size_t i = 0; i <= options_.data_lanes; ++i) waiting_.emplace_back(kFairTurnBytes);
}

void TcpConnection::AttachLane(uint32_t index, os::EventLoop& loop, LaneSocket socket,
                               bool send_welcome) {
  InHome([self = shared_from_this(), index, &loop, socket = std::move(socket),
          send_welcome]() mutable {
    if (self->ending()) return;
    const bool several = self->options_.several_addresses;
    if (const std::shared_ptr<Lane> old = self->lanes_[index]; old != nullptr) {
      if (!several || index == 0 || !send_welcome) return;
      old->loop().Post([old] { old->Close(Cancelled()); });
      --self->attached_;
    }
    if (index > 0) LimitBuffers(socket.fd(), self->options_.socket_buffer_bytes);
    if (several) os::LimitSilence(socket.fd(), index > 0 ? kLaneSilence : kMessagesSilence);
    if (index > 0 && !self->handed_out_) self->Describe(index, socket);
    self->lanes_[index] =
        std::make_shared<Lane>(index, loop, std::move(socket), self->options_.zero_copy);
    ++self->attached_;
    // Before anything is asked of it.
    auto start = [self, lane = self->lanes_[index], send_welcome] {
      lane->Start(self, send_welcome);
    };
    if (loop.InThread()) {
      start();
    } else {
      loop.Post(std::move(start));
    }
    self->Pump();
  });
}

void TcpConnection::Describe(uint32_t index, const LaneSocket& socket) {
  const auto peer = os::PeerAddress(socket.fd());
  const auto local = os::LocalAddress(socket.fd());
  if (peer.ok() && local.ok()) {
    // Traffic to an address of this machine goes through its loopback device, whatever the
    // address.
    const bool loopback = !os::InterfaceOf(peer->host).empty();
    loopback_ |= loopback;
    lane_infos_[index - 1] = {loopback ? "lo" : os::InterfaceOf(local->host), peer->ToString()};
  }
  far_ |= socket.round_trip() > kFar;
  if (socket.encrypted()) {
    encryption_ = EncryptionText(socket.cipher(), options_.owner_by_kernel, options_.own_by_kernel);
  }
}

void TcpConnection::NameLane(uint32_t index, LaneInfo info) {
  lane_infos_[index - 1] = std::move(info);
}

size_t TcpConnection::DataLanes() const {
  return static_cast<size_t>(std::count_if(lanes_.begin() + 1, lanes_.end(),
                                           [](const auto& lane) { return lane != nullptr; }));
}

void TcpConnection::ExpectLanesWithin(os::Clock::duration limit) {
  home().Post([self = shared_from_this(), limit] {
    self->home().RunAfter(limit, [weak = std::weak_ptr(self)] {
      const auto self = weak.lock();
      if (self == nullptr || self->attached_ == self->lanes_.size()) return;
      if (self->options_.several_addresses && self->HasLane(0) && self->DataLanes() > 0) return;
      self->Shut({Code::kUnavailable, reasons::kLinkDown,
                  "node " + self->peer() + " did not connect its tcp lanes in time"},
                 false);
    });
  });
}

void TcpConnection::StartGet(const GetRequest& request, GetDone done) {
  const Result<Key> key = DecodeKey(*request.key);
  Status refused = key.status();
  if (ending()) refused = why();
  if (request.into.bytes > kMaxGetBytes) {
    refused = {Code::kInvalidArgument, reasons::kBadSize, "a tcp get of more than 64 MiB"};
  }
  if (request.lane != GetRequest::kAnyLane &&
      static_cast<size_t>(request.lane) >= lane_infos_.size()) {
    refused = {Code::kInvalidArgument, reasons::kBadArgument,
               "the read names a lane that this tcp connection does not have"};
  } else if (request.lane != GetRequest::kAnyLane && !ending() &&
             !HasLane(static_cast<uint32_t>(request.lane) + 1)) {
    refused = {Code::kUnavailable, reasons::kLinkDown,
               "node " + peer() + " does not answer at " +
                   lane_infos_[static_cast<size_t>(request.lane)].peer};
  }
  if (!refused.ok()) {
    return home().Post([done = std::move(done), refused]() mutable { done(refused, nullptr, 0); });
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

void TcpConnection::Pump() {
  if (ending()) return;
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

void TcpConnection::Ask(Waiting waiting, unsigned lane, bool named) {
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

bool TcpConnection::HasRoom(unsigned lane) const {
  const uint64_t most = kTransfersAtFullSpeed * options_.gets_per_lane * options_.chunk_bytes;
  const bool less = competition_.on() && !far_;
  return HasLane(lane) && asked_[lane].gets() < kMaxGetsAsked &&
         asked_[lane].bytes() < (less ? most / kLessWhileCompeting : most);
}

unsigned TcpConnection::LaneFor(uint64_t bytes) {
  return asked_.Choose(bytes, [this](unsigned lane) { return HasRoom(lane); });
}

void TcpConnection::MakeRoom(unsigned lane, uint64_t bytes) {
  asked_.Brought(lane, bytes);
  Pump();
}

void TcpConnection::GetEnded(unsigned, uint64_t tag, Status status, bool report_follows) {
  if (home().InThread()) return EndGet(tag, std::move(status), report_follows);
  home().Post([self = shared_from_this(), tag, status = std::move(status),
               report_follows]() mutable { self->EndGet(tag, std::move(status), report_follows); });
}

void TcpConnection::EndGet(uint64_t tag, Status status, bool report_follows) {
  const auto found = gets_.find(tag);
  if (found == gets_.end()) return;
  gets_ended_.fetch_add(1, std::memory_order_relaxed);
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
  // A lane does not know whose it is; why() says it already.
  if (!status.ok() && !ending()) status = status.WithContext("connection with node " + peer());
  const bool left = report_follows && !get.copied.value_or(true);
  get.End(std::move(status), left ? get.asked.steps.left : get.asked.steps.copied);
}

void TcpConnection::BodySent(uint64_t tag, bool copied) {
  InHome([self = shared_from_this(), tag, copied] {
    if (!self->ending() && self->lanes_[0] != nullptr) self->lanes_[0]->SendReport(tag, copied);
  });
}

// By lane 0, so not behind what the owner is sending by now; but maybe before that get ends.
void TcpConnection::ReportArrived(uint64_t tag, bool copied) {
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

// Where others go on, all that the lane had is seen to once it has said that it failed.
void TcpConnection::GetLost(unsigned lane, uint64_t tag, Status why) {
  if (options_.several_addresses) return;
  GetEnded(lane, tag, std::move(why), false);
}

void TcpConnection::GetAbandoned(unsigned, uint64_t tag) {
  InHome([self = shared_from_this(), tag] {
    auto node = self->gets_.extract(tag);
    if (!node.empty()) node.mapped().End(Cancelled(), nullptr);
  });
}

void TcpConnection::Discarded(unsigned lane, uint64_t bytes) {
  InHome([self = shared_from_this(), lane, bytes] { self->MakeRoom(lane, bytes); });
}

void TcpConnection::CancelNow(ChannelId channel) {
  for (FairQueue<Waiting>& queue : waiting_) {
    for (Waiting& get : queue.TakeChannel(channel)) {
      get.into.region.reset();
      get.done(Cancelled(), nullptr, 0);
    }
  }
  std::deque<Waiting> lost;
  lost.swap(lost_);
  for (Waiting& get : lost) {
    if (get.channel != channel) {
      lost_.push_back(std::move(get));
      continue;
    }
    get.into.region.reset();
    get.done(Cancelled(), nullptr, 0);
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

TcpConnection::GetSteps TcpConnection::StepsOf(const std::string& owner_memory,
                                               const Region& into) {
  auto name = std::make_pair(owner_memory, into.step_name());
  const auto known = steps_.find(name);
  if (known != steps_.end()) return known->second;
  if (steps_.size() >= kMaxStepLists) steps_.clear();
  std::vector<Step> all;
  std::string memory = name.first;  // at the owner's, of what its kernel copies
  if (options_.encrypted && !options_.owner_by_kernel) {
    all.push_back({.node = peer(), .from = memory, .to = kSealed, .by = "cpu"});
    memory = kSealed;
  }
  all.push_back({.node = peer(), .from = memory, .to = "kernel", .by = "cpu"});
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
  GetSteps steps{std::make_shared<const std::vector<Step>>(std::move(all)),
                 std::make_shared<const std::vector<Step>>(std::move(left))};
  return steps_.emplace(std::move(name), std::move(steps)).first->second;
}

void TcpConnection::Export(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  InHome([self = shared_from_this(), span, done = std::move(done)]() mutable {
    done(self->ExportNow(span));
  });
}

Result<RemoteKey> TcpConnection::ExportNow(const Span& span) {
  if (closed()) return Closed();
  if (!span.region->cpu_addressable()) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "sockets cannot read memory of " + span.region->step_name() + " in place");
  }
  return Encode(Key{exports_.Add(span), span.region->step_name()});
}

// An export opens only its span anyway, and ends without asking.
void TcpConnection::Lend(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  Export(span, std::move(done));
}

void TcpConnection::EndLoan(const RemoteKey& key, Task done) { Revoke(key, std::move(done)); }

void TcpConnection::Revoke(const RemoteKey& text, Task done) {
  const Result<Key> key = DecodeKey(text);
  InHome(
      [self = shared_from_this(), key = key.ok() ? key->id : 0, done = std::move(done)]() mutable {
        const auto timer = self->home().RunAfter(kRevokeLimit, [self] {
          self->Shut(
              {Code::kUnavailable, reasons::kLinkDown,
               "node " + self->peer() +
                   " was too slow to receive a read that it began before its access was revoked"},
              false);
        });
        auto idle = [self, timer, done = std::move(done)]() mutable {
          self->home().CancelTimer(timer);
          done();
        };
        if (!self->exports_.Revoke(key, std::move(idle))) return;
        for (size_t i = 1; i < self->lanes_.size(); ++i) {
          const std::shared_ptr<Lane>& lane = self->lanes_[i];
          if (lane == nullptr) continue;
          lane->loop().Post([lane, key] { lane->Void(key, Exports::NotOpen()); });
        }
      });
}

void TcpConnection::SendNow(ChannelId channel, std::string message) {
  if (lanes_[0] != nullptr) lanes_[0]->SendMessage(channel, std::move(message));
}

void TcpConnection::MessageArrived(uint64_t channel, std::span<const std::byte> message) {
  Deliver(channel, message);
}

void TcpConnection::LaneFailed(std::shared_ptr<Lane> lane, Status status) {
  if (!options_.several_addresses || lane->index() == 0) return Close(std::move(status));
  InHome([self = shared_from_this(), lane = std::move(lane), status = std::move(status)] {
    self->LaneEnded(lane, status);
  });
}

void TcpConnection::LaneEnded(const std::shared_ptr<Lane>& lane, const Status& why) {
  const unsigned index = lane->index();
  if (ending() || lanes_[index] != lane) return;
  // The last one stays in its place, since gets are still its own.
  if (DataLanes() == 1) return Shut(why, false);
  ++ends_[index].count;
  ends_[index].bytes_received += lane->ReadCounters().bytes_received;
  lanes_[index].reset();
  --attached_;
  asked_.Forget(index);
  std::vector<Outstanding> over;
  for (auto one = gets_.begin(); one != gets_.end();) {
    if (one->second.lane != index) {
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
  for (Waiting& get : waiting_[index].TakeAll()) {
    get.into.region.reset();
    get.done(why, nullptr, 0);
  }
  if (lane_ended_) lane_ended_(index, why);
  Pump();
}

void TcpConnection::AddressIs(const std::string& address, const Status& why) {
  if (why.ok()) {
    silent_.erase(address);
  } else {
    silent_[address] = why;
  }
  if (address_changed_) address_changed_(address, why);
}

void TcpConnection::OnAddress(AddressChanged changed) {
  InHome([self = shared_from_this(), changed = std::move(changed)]() mutable {
    self->address_changed_ = std::move(changed);
    for (const auto& [address, why] : self->silent_) self->address_changed_(address, why);
  });
}

void TcpConnection::Shut(const Status& reason, bool /*tell_peer*/) {
  if (!BeginEnd(reason)) return;
  open_lanes_ = 1;  // until the loop below is through
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    if (lane == nullptr) continue;
    ++open_lanes_;
    lane->loop().Post([self = shared_from_this(), lane] {
      lane->Close(self->why());
      self->home().Post([self] { self->LaneClosed(); });
    });
  }
  LaneClosed();
}

// Each lane has ended its gets (posted here before this) and dropped what it was sending. What is
// left was asked of a lane that had closed already.
void TcpConnection::LaneClosed() {
  if (--open_lanes_ > 0) return;
  for (auto& [tag, get] : std::exchange(gets_, {})) get.End(why(), nullptr);
  for (Waiting& get : std::exchange(lost_, {})) {
    get.into.region.reset();
    get.done(why(), nullptr, 0);
  }
  for (FairQueue<Waiting>& queue : waiting_) {
    for (Waiting& get : queue.TakeAll()) {
      get.into.region.reset();
      get.done(why(), nullptr, 0);
    }
  }
  exports_.Clear();
  End();
}

void TcpConnection::Evidence(
    UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done) {
  struct Gathering {
    std::vector<std::pair<std::string, uint64_t>> counters;
    size_t missing = 0;
    UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done;
  };
  InHome([self = shared_from_this(), done = std::move(done)]() mutable {
    auto gathering = std::make_shared<Gathering>();
    gathering->done = std::move(done);
    gathering->missing = self->options_.data_lanes;
    gathering->counters.resize(self->options_.data_lanes);
    for (uint32_t i = 1; i <= self->options_.data_lanes; ++i) {
      const std::string name = "lane " + std::to_string(i);
      const LaneEnds& ends = self->ends_[i];
      if (ends.count > 0) gathering->counters.emplace_back(name + " ended", ends.count);
      const auto gathered = [gathering, i, name, before = ends.bytes_received](uint64_t received) {
        gathering->counters[i - 1] = {name + " bytes received", before + received};
        if (--gathering->missing == 0) gathering->done(std::move(gathering->counters));
      };
      const std::shared_ptr<Lane> lane = self->lanes_[i];
      if (lane == nullptr) {
        self->home().Post([gathered] { gathered(0); });
        continue;
      }
      lane->loop().Post([self, lane, gathered] {
        self->home().Post(
            [gathered, received = lane->ReadCounters().bytes_received] { gathered(received); });
      });
    }
  });
}

}  // namespace onecopy::tcp
