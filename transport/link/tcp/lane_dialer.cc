#include "transport/link/tcp/lane_dialer.h"

#include <algorithm>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/sockets/own_addresses.h"

namespace onecopy::tcp {
namespace {

// What addresses that have not answered get, once the connection could be used without them.
constexpr std::chrono::milliseconds kOthersWait{500};
constexpr std::chrono::seconds kRetry{3};

Status CheckWelcome(const Result<FrameHeader>& answer, uint32_t lane) {
  if (!answer.ok()) return answer.status();
  if (answer->kind == FrameKind::kWelcome && answer->tag == lane) return OkStatus();
  return {Code::kUnavailable, reasons::kLinkDown, "the peer did not accept a tcp lane"};
}

LaneInfo Unconnected(const os::HostPort& where) {
  const Result<std::string> source = os::SourceTowards(where);
  return {source.ok() ? os::InterfaceOf(*source) : "", where.ToString()};
}

}  // namespace

LaneDialer::LaneDialer(std::shared_ptr<TcpConnection> connection, os::EventLoop& home, Plan plan)
    : home_(home),
      plan_(std::move(plan)),
      several_(plan_.addresses.size() > 1),
      making_(std::move(connection)),
      connection_(making_),
      lanes_(making_->lanes().size() + 1),
      messages_tried_(plan_.addresses.size()) {
  for (const os::HostPort& where : plan_.addresses) addresses_.push_back({.where = where});
}

void LaneDialer::Start(Done done) {
  done_ = std::move(done);
  // Strongly only once this does not hold the connection any more.
  making_->OnLaneEnded([weak = weak_from_this()](uint32_t lane, const Status& why) {
    if (const auto self = weak.lock()) self->Ended(lane, why);
  });
  for (uint32_t lane = 1; lane < lanes_.size(); ++lane) Dial(lane);
  for (size_t i = 0; i < addresses_.size(); ++i) {
    if (!several_ || addresses_[i].where.host == plan_.answered) return DialMessages(i);
  }
}

size_t LaneDialer::AddressOf(uint32_t lane) const { return (lane - 1) % addresses_.size(); }

void LaneDialer::Dial(uint32_t lane) {
  const size_t address = AddressOf(lane);
  lanes_[lane].dialling = true;
  Greeting::Offer(home_, addresses_[address].where,
                  {FrameKind::kHello, lane, plan_.token.high, plan_.token.low, 0}, plan_.secure,
                  [self = shared_from_this(), lane, address](auto reply, LaneSocket socket) {
                    self->Greeted(lane, address, CheckWelcome(reply, lane), std::move(socket));
                  });
}

void LaneDialer::DialMessages(size_t address) {
  lanes_[0].dialling = true;
  messages_tried_[address] = true;
  Greeting::Offer(home_, addresses_[address].where,
                  {FrameKind::kHello, 0, plan_.token.high, plan_.token.low, 0}, plan_.secure,
                  [self = shared_from_this(), address](auto reply, LaneSocket socket) {
                    self->Greeted(0, address, CheckWelcome(reply, 0), std::move(socket));
                  });
}

void LaneDialer::Greeted(uint32_t lane, size_t address, const Status& welcome, LaneSocket socket) {
  lanes_[lane].dialling = false;
  if (welcome.ok()) {
    LaneIsUp(lane, address, std::move(socket));
  } else {
    addresses_[address].why =
        welcome.WithContext("connecting tcp lanes to " + addresses_[address].where.ToString());
    if (making_ == nullptr) Tell(address, addresses_[address].why);
  }
  if (making_ != nullptr) return Look();
  RetryLater();
}

void LaneDialer::LaneIsUp(uint32_t lane, size_t address, LaneSocket socket) {
  const std::shared_ptr<TcpConnection> connection = connection_.lock();
  if (connection == nullptr) return;
  lanes_[lane].up = true;
  connection->AttachLane(lane, plan_.loop_of(lane), std::move(socket), false);
  if (!addresses_[address].silent) return;
  Tell(address, OkStatus());
  for (uint32_t other = 1; other < lanes_.size(); ++other) {
    if (AddressOf(other) == address && !lanes_[other].up && !lanes_[other].dialling) Dial(other);
  }
}

void LaneDialer::Look() {
  const bool dialling = std::any_of(lanes_.begin(), lanes_.end(),
                                    [](const LaneState& lane) { return lane.dialling; });
  const bool any_up =
      std::any_of(lanes_.begin() + 1, lanes_.end(), [](const LaneState& lane) { return lane.up; });
  if (!several_) {
    if (dialling) return;
    return addresses_[0].why.ok() ? HandOut() : Fail(addresses_[0].why);
  }
  // The lane of messages, which did not come where the daemon answers, or where that is not known.
  for (size_t i = 0; i < addresses_.size() && !lanes_[0].up && !lanes_[0].dialling; ++i) {
    if (!messages_tried_[i] && AnyLane(i, &LaneState::up)) return DialMessages(i);
  }
  if (any_up && lanes_[0].up && (!dialling || waited_)) return HandOut();
  if (!dialling) {
    for (const Address& address : addresses_) {
      if (!address.why.ok()) return Fail(address.why);
    }
    return Fail({Code::kUnavailable, reasons::kLinkDown, "the peer accepted no tcp lane"});
  }
  if (!any_up || !lanes_[0].up || std::exchange(waiting_, true)) return;
  home_.RunAfter(kOthersWait, [self = shared_from_this()] {
    self->waited_ = true;
    if (self->making_ != nullptr) self->Look();
  });
}

void LaneDialer::HandOut() {
  const std::shared_ptr<TcpConnection> connection = std::move(making_);
  for (uint32_t lane = 1; lane < lanes_.size(); ++lane) {
    if (!lanes_[lane].up)
      connection->NameLane(lane, Unconnected(addresses_[AddressOf(lane)].where));
  }
  connection->OnLaneEnded(
      [self = shared_from_this()](uint32_t lane, const Status& why) { self->Ended(lane, why); });
  connection->HandOut();
  std::exchange(done_, nullptr)(std::shared_ptr<Connection>(connection));
  for (size_t i = 0; i < addresses_.size(); ++i) {
    if (AnyLane(i, &LaneState::up)) continue;
    Tell(i, addresses_[i].why.ok()
                ? Status(Code::kUnavailable, reasons::kLinkDown, "it does not answer")
                : addresses_[i].why);
  }
  RetryLater();
}

void LaneDialer::Fail(const Status& why) {
  const std::shared_ptr<TcpConnection> connection = std::move(making_);
  connection->Close(why);
  std::exchange(done_, nullptr)(why);
}

void LaneDialer::Ended(uint32_t lane, const Status& why) {
  lanes_[lane].up = false;
  const size_t address = AddressOf(lane);
  addresses_[address].why = why;
  if (making_ != nullptr) return Look();
  Tell(address, why);
  RetryLater();
}

// Of an address that still has lanes there is nothing to tell.
void LaneDialer::Tell(size_t address, const Status& why) {
  Address& one = addresses_[address];
  const std::shared_ptr<TcpConnection> connection = connection_.lock();
  if (connection == nullptr || making_ != nullptr || one.silent == !why.ok()) return;
  if (!why.ok() && (one.returned || AnyLane(address, &LaneState::up))) return;
  one.silent = !why.ok();
  connection->AddressIs(one.where.ToString(), why);
  if (one.silent) return;
  one.returned = true;
  home_.RunAfter(kRetry, [weak = weak_from_this(), address] {
    if (const auto self = weak.lock()) self->StandsNoLonger(address);
  });
}

// Lanes that are greeted and end would otherwise be told, and dialled, without a pause.
void LaneDialer::StandsNoLonger(size_t address) {
  addresses_[address].returned = false;
  if (!AnyLane(address, &LaneState::up)) Tell(address, addresses_[address].why);
}

bool LaneDialer::AnyLane(size_t address, bool LaneState::*state) const {
  for (uint32_t lane = 1; lane < lanes_.size(); ++lane) {
    if (AddressOf(lane) == address && lanes_[lane].*state) return true;
  }
  return false;
}

void LaneDialer::RetryLater() {
  const bool missing = std::any_of(lanes_.begin() + 1, lanes_.end(), [](const LaneState& lane) {
    return !lane.up && !lane.dialling;
  });
  if (!missing || retrying_) return;
  retrying_ = true;
  home_.RunAfter(kRetry, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Retry();
  });
}

// One lane finds out whether a silent address answers; the others follow it.
void LaneDialer::Retry() {
  retrying_ = false;
  const std::shared_ptr<TcpConnection> connection = connection_.lock();
  if (connection == nullptr || connection->closed()) return;
  for (uint32_t lane = 1; lane < lanes_.size(); ++lane) {
    if (lanes_[lane].up || lanes_[lane].dialling) continue;
    const size_t address = AddressOf(lane);
    if (addresses_[address].silent && AnyLane(address, &LaneState::dialling)) continue;
    Dial(lane);
  }
  RetryLater();
}

}  // namespace onecopy::tcp
