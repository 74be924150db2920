#include "transport/link/tcp/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/link/tcp/encryption.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/sockets/silence.h"

namespace onecopy::tcp {
namespace {

// How long a withdrawal waits for the kernel to have sent, or been acknowledged, what it reads from
// where it lies; everything else is released at once.
constexpr std::chrono::seconds kRevokeLimit{10};
// Of an owner with several addresses a silent one is left sooner than one would give up the only
// one. With the lane of messages goes the connection, and its transfers begin again where they
// were.
constexpr std::chrono::seconds kLaneSilence{3};
constexpr std::chrono::seconds kMessagesSilence{5};
// The kernel keeps to net.core.rmem_max and wmem_max, and doubles what it is told for its own
// needs.
void LimitBuffers(int fd, uint64_t bytes) {
  if (bytes == 0) return;
  const int half = static_cast<int>(bytes / 2);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof half);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &half, sizeof half);
}

}  // namespace

TcpConnection::TcpConnection(ConnectionOptions options, os::EventLoop& home)
    : LinkConnection(home, "tcp", options.peer),
      options_(std::move(options)),
      exports_(home),
      lane_infos_(options_.data_lanes),
      lanes_(options_.data_lanes + 1),
      ends_(options_.data_lanes + 1),
      reads_(options_, home, lanes_, lane_infos_) {}

void TcpConnection::AttachLane(uint32_t index, os::EventLoop& loop, LaneSocket socket,
                               bool send_welcome) {
  InHome([self = shared_from_this(), index, &loop, socket = std::move(socket),
          send_welcome]() mutable {
    if (self->ending()) return;
    const bool several = self->options_.several_addresses;
    if (const std::shared_ptr<Lane> old = self->lanes_[index]; old != nullptr) {
      if (!several || index == 0 || !send_welcome) return;
      old->loop().Post([old] { old->Close(Reads::Cancelled()); });
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
    self->reads_.Pump();
  });
}

void TcpConnection::Describe(uint32_t index, const LaneSocket& socket) {
  const auto peer = os::PeerAddress(socket.fd());
  const auto local = os::LocalAddress(socket.fd());
  bool loopback = false;
  if (peer.ok() && local.ok()) {
    // Traffic to an address of this machine goes through its loopback device, whatever the
    // address.
    loopback = !os::InterfaceOf(peer->host).empty();
    lane_infos_[index - 1] = {loopback ? "lo" : os::InterfaceOf(local->host), peer->ToString()};
  }
  reads_.OnWire(loopback, socket.round_trip());
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

void TcpConnection::GetEnded(unsigned, uint64_t tag, Status status, bool report_follows) {
  if (home().InThread()) return reads_.OnEnded(tag, std::move(status), report_follows);
  home().Post(
      [self = shared_from_this(), tag, status = std::move(status), report_follows]() mutable {
        self->reads_.OnEnded(tag, std::move(status), report_follows);
      });
}

void TcpConnection::BodySent(uint64_t tag, bool copied) {
  InHome([self = shared_from_this(), tag, copied] {
    if (!self->ending() && self->lanes_[0] != nullptr) self->lanes_[0]->SendReport(tag, copied);
  });
}

void TcpConnection::ReportArrived(uint64_t tag, bool copied) { reads_.OnReport(tag, copied); }

// Where others go on, all that the lane had is seen to once it has said that it failed.
void TcpConnection::GetLost(unsigned lane, uint64_t tag, Status why) {
  if (options_.several_addresses) return;
  GetEnded(lane, tag, std::move(why), false);
}

void TcpConnection::GetAbandoned(unsigned, uint64_t tag) {
  InHome([self = shared_from_this(), tag] { self->reads_.OnAbandoned(tag); });
}

void TcpConnection::Discarded(unsigned lane, uint64_t bytes) {
  InHome([self = shared_from_this(), lane, bytes] { self->reads_.OnDiscarded(lane, bytes); });
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
  reads_.OnLaneEnded(index, why);
  if (lane_ended_) lane_ended_(index, why);
  reads_.Pump();
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
  reads_.Stop(why());
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
  reads_.EndAll();
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
