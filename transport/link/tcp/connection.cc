#include "transport/link/tcp/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "transport/core/reasons.h"
#include "transport/os/host_port.h"

namespace onecopy::tcp {
namespace {

// How long a withdrawal waits for a peer to take the bytes that it had asked for.
constexpr std::chrono::seconds kWithdrawLimit{2};
constexpr size_t kMostStepLists = 64;

// The kernel keeps to net.core.rmem_max and wmem_max, and doubles what it is told for its own
// needs.
void LimitBuffers(int fd, uint64_t bytes) {
  if (bytes == 0) return;
  const int half = static_cast<int>(bytes / 2);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof half);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &half, sizeof half);
}

Step KernelCopy(const std::string& node, const std::string& memory) {
  return {.node = node, .from = memory, .to = "kernel", .by = "cpu"};
}

}  // namespace

TcpConnection::TcpConnection(ConnectionOptions options, os::EventLoop& home)
    : options_(std::move(options)),
      home_(home),
      exposures_(home),
      lane_infos_(options_.data_lanes),
      lanes_(options_.data_lanes + 1),
      lane_load_(options_.data_lanes + 1) {}

void TcpConnection::InHome(Task task) {
  if (home_.InThread()) return task();
  home_.Post(std::move(task));
}

void TcpConnection::AttachLane(uint32_t index, os::EventLoop& loop, os::UniqueFd fd,
                               bool send_welcome) {
  InHome([self = shared_from_this(), index, &loop, fd = std::move(fd), send_welcome]() mutable {
    if (self->shut_ || self->lanes_[index] != nullptr) return;
    if (index > 0) LimitBuffers(fd.get(), self->options_.socket_buffer_bytes);
    const auto peer = os::PeerAddress(fd.get());
    const auto local = os::LocalAddress(fd.get());
    if (index > 0 && peer.ok() && local.ok()) {
      // Traffic to an address of this machine goes through its loopback device, whatever the
      // address.
      const bool loopback = !os::InterfaceOf(peer->host).empty();
      self->loopback_ |= loopback;
      self->lane_infos_[index - 1] = {loopback ? "lo" : os::InterfaceOf(local->host),
                                      peer->ToString()};
    }
    self->lanes_[index] =
        std::make_shared<Lane>(index, loop, std::move(fd), self->options_.zero_copy);
    ++self->attached_;
    loop.Post(
        [self, lane = self->lanes_[index], send_welcome] { lane->Start(self, send_welcome); });
  });
}

void TcpConnection::ExpectLanesWithin(os::Clock::duration limit) {
  home_.Post([self = shared_from_this(), limit] {
    self->home_.RunAfter(limit, [weak = std::weak_ptr(self)] {
      const auto self = weak.lock();
      if (self == nullptr || self->attached_ == self->lanes_.size()) return;
      self->Shut({Code::kUnavailable, reasons::kLinkDown,
                  "node " + self->options_.peer + " did not connect its tcp lanes in time"});
    });
  });
}

void TcpConnection::Get(const GetRequest& request, GetDone done) {
  if (home_.InThread()) return StartGet(request, std::move(done));
  home_.Post([self = shared_from_this(), request, done = std::move(done)]() mutable {
    self->StartGet(request, std::move(done));
  });
}

void TcpConnection::StartGet(const GetRequest& request, GetDone done) {
  const Result<Key> key = DecodeKey(*request.key);
  Status refused = key.status();
  if (shut_) refused = why_;
  if (request.into.bytes > kMaxGetBytes) {
    refused = {Code::kInvalidArgument, reasons::kBadSize, "a tcp get of more than 64 MiB"};
  }
  if (request.lane != GetRequest::kAnyLane &&
      static_cast<size_t>(request.lane) >= lane_infos_.size()) {
    refused = {Code::kInvalidArgument, reasons::kBadArgument, "a tcp get on a lane that is none"};
  }
  if (!refused.ok()) {
    return home_.Post([done = std::move(done), refused]() mutable { done(refused, nullptr, 0); });
  }
  const unsigned index = request.lane == GetRequest::kAnyLane
                             ? LeastLoaded()
                             : static_cast<unsigned>(request.lane) + 1;
  lane_load_[index] += request.into.bytes;
  const uint64_t tag = next_tag_++;
  gets_.emplace(tag, Outstanding{request.channel, index, request.into.bytes,
                                 StepsOf(key->memory, *request.into.region), std::move(done)});
  const std::shared_ptr<Lane>& lane = lanes_[index];
  const FrameHeader get{request.all_steps ? FrameKind::kGetCopied : FrameKind::kGet, tag, key->id,
                        request.key_offset, request.into.bytes};
  if (lane->loop().InThread()) return lane->Get(get, request.into);
  lane->loop().Post([lane, get, into = request.into] { lane->Get(get, into); });
}

// Of those that are equal, the one whose turn it is: they share the work evenly.
unsigned TcpConnection::LeastLoaded() {
  const auto lanes = static_cast<unsigned>(lane_infos_.size());
  unsigned least = last_lane_ % lanes + 1;
  for (unsigned i = 1; i < lanes; ++i) {
    const unsigned lane = (last_lane_ + i) % lanes + 1;
    if (lane_load_[lane] < lane_load_[least]) least = lane;
  }
  return last_lane_ = least;
}

void TcpConnection::GetEnded(unsigned, uint64_t tag, Status status, bool owner_accounts) {
  if (home_.InThread()) return EndGet(tag, std::move(status), owner_accounts);
  home_.Post([self = shared_from_this(), tag, status = std::move(status),
              owner_accounts]() mutable { self->EndGet(tag, std::move(status), owner_accounts); });
}

void TcpConnection::EndGet(uint64_t tag, Status status, bool owner_accounts) {
  auto node = gets_.extract(tag);
  if (node.empty()) return;
  Outstanding& get = node.mapped();
  lane_load_[get.lane] -= get.bytes;
  // A lane does not know whose it is; why_ says it already.
  if (!status.ok() && !shut_) status = status.WithContext("connection with node " + options_.peer);
  get.done(std::move(status), owner_accounts ? get.steps.here : get.steps.all, get.lane - 1);
}

void TcpConnection::CancelGets(ChannelId channel) {
  InHome([self = shared_from_this(), channel] {
    std::map<unsigned, std::vector<uint64_t>> by_lane;
    for (const auto& [tag, get] : self->gets_) {
      if (get.channel == channel) by_lane[get.lane].push_back(tag);
    }
    for (auto& [index, tags] : by_lane) {
      const std::shared_ptr<Lane> lane = self->lanes_[index];
      lane->loop().Post([lane, tags = std::move(tags)] { lane->Abandon(tags); });
    }
  });
}

TcpConnection::GetSteps TcpConnection::StepsOf(const std::string& owner_memory,
                                               const Region& into) {
  auto name = std::make_pair(owner_memory, into.step_name());
  const auto known = steps_.find(name);
  if (known != steps_.end()) return known->second;
  if (steps_.size() >= kMostStepLists) steps_.clear();
  const Step out = KernelCopy(options_.peer, name.first);
  const Step wire{
      .node = options_.node, .from = "kernel", .to = "kernel", .by = "wire", .loopback = loopback_};
  Step direct = wire;  // as long as the owner does not say that its kernel copied
  direct.from = name.first;
  const Step in{.node = options_.node, .from = "kernel", .to = name.second, .by = "cpu"};
  GetSteps steps{std::make_shared<const std::vector<Step>>(std::vector<Step>{out, wire, in}),
                 std::make_shared<const std::vector<Step>>(std::vector<Step>{direct, in})};
  return steps_.emplace(std::move(name), std::move(steps)).first->second;
}

void TcpConnection::Expose(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) {
  InHome([self = shared_from_this(), span, done = std::move(done)]() mutable {
    done(self->ExposeNow(span));
  });
}

Result<RemoteKey> TcpConnection::ExposeNow(const Span& span) {
  if (closed_)
    return Status(Code::kUnavailable, reasons::kLinkDown, "the tcp connection is closed");
  if (!span.region->cpu_addressable()) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "sockets cannot read memory of " + span.region->step_name() + " in place");
  }
  return Encode(Key{exposures_.Add(span), span.region->step_name()});
}

void TcpConnection::Withdraw(const RemoteKey& text, WithdrawDone done) {
  const Result<Key> key = DecodeKey(text);
  InHome(
      [self = shared_from_this(), key = key.ok() ? *key : Key{}, done = std::move(done)]() mutable {
        const auto timer = self->home_.RunAfter(kWithdrawLimit, [self] {
          self->Shut({Code::kUnavailable, reasons::kStalled,
                      "node " + self->options_.peer + " does not take bytes that were withdrawn"});
        });
        self->exposures_.Withdraw(key.id, [self, timer, memory = key.memory,
                                           done = std::move(done)](uint64_t copied) mutable {
          self->home_.CancelTimer(timer);
          OwnerSteps steps;
          if (copied > 0) steps.push_back({KernelCopy(self->options_.node, memory), copied});
          done(steps);
        });
      });
}

void TcpConnection::Listen(ChannelId channel, MessageHandler handler) {
  listeners_.Listen(channel, std::move(handler));
}

void TcpConnection::Ignore(ChannelId channel) { listeners_.Ignore(channel); }

Status TcpConnection::Send(ChannelId channel, std::span<const std::byte> message) {
  if (message.size() > kMaxMessageBytes) {
    return {Code::kInvalidArgument, reasons::kBadSize, "a tcp message above its bound"};
  }
  if (closed_) return {Code::kUnavailable, reasons::kLinkDown, "the tcp connection is closed"};
  InHome([self = shared_from_this(), channel,
          text = std::string(reinterpret_cast<const char*>(message.data()),
                             message.size())]() mutable {
    if (!self->shut_ && self->lanes_[0] != nullptr)
      self->lanes_[0]->SendMessage(channel, std::move(text));
  });
  return OkStatus();
}

void TcpConnection::MessageArrived(uint64_t channel, std::span<const std::byte> message) {
  listeners_.Deliver(channel, message);
}

void TcpConnection::OnClosed(UniqueFunction<void(Status)> closed) {
  InHome([self = shared_from_this(), closed = std::move(closed)]() mutable {
    if (self->done_) return closed(self->why_);
    self->closed_callbacks_.push_back(std::move(closed));
  });
}

void TcpConnection::LaneFailed(unsigned, Status status) { Close(std::move(status)); }

void TcpConnection::Close(Status why) {
  closed_ = true;
  home_.Post([self = shared_from_this(), why = std::move(why)] { self->Shut(why); });
}

void TcpConnection::Shut(Status why) {
  if (shut_) return;
  shut_ = true;
  closed_ = true;
  why_ = why.WithContext("connection with node " + options_.peer);
  open_lanes_ = 1;  // until the loop below is through
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    if (lane == nullptr) continue;
    ++open_lanes_;
    lane->loop().Post([self = shared_from_this(), lane] {
      lane->Close(self->why_);
      self->home_.Post([self] { self->LaneClosed(); });
    });
  }
  LaneClosed();
}

// Each lane has ended its gets (posted here before this) and dropped what it was sending. What is
// left was asked of a lane that had closed already.
void TcpConnection::LaneClosed() {
  if (--open_lanes_ > 0) return;
  for (auto& [tag, get] : std::exchange(gets_, {})) get.done(why_, nullptr, get.lane - 1);
  exposures_.Clear();
  listeners_.Clear();
  done_ = true;
  // After what the end of the exposures has posted.
  home_.Post([self = shared_from_this()] {
    for (auto& closed : std::exchange(self->closed_callbacks_, {})) closed(self->why_);
  });
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
      const std::shared_ptr<Lane> lane = self->lanes_[i];
      lane->loop().Post([self, lane, gathering, i] {
        const uint64_t received = lane->ReadCounters().bytes_received;
        self->home_.Post([gathering, i, received] {
          gathering->counters[i - 1] = {"lane " + std::to_string(i) + " bytes received", received};
          if (--gathering->missing == 0) gathering->done(std::move(gathering->counters));
        });
      });
    }
  });
}

}  // namespace onecopy::tcp
