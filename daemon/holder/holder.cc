#include "daemon/holder/holder.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "transport/os/sockets/unix_socket.h"

namespace onecopy::holder {
namespace {

constexpr mode_t kOwnerAlone = 0600;
constexpr int kBacklog = 16;
constexpr size_t kMostConnections = 16;
constexpr std::chrono::hours kMostPatience{24 * 7};

}  // namespace

Result<std::unique_ptr<Holder>> Holder::Serve(os::EventLoop& loop, const std::string& path,
                                              std::function<void()> over) {
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd listener,
                           os::ListenUnix(path, SOCK_SEQPACKET, kOwnerAlone, kBacklog));
  std::unique_ptr<Holder> holder(new Holder(loop, std::move(over)));
  Holder* const self = holder.get();
  holder->acceptor_ = std::make_unique<os::Acceptor>(
      loop, std::move(listener), [self](os::UniqueFd fd) { self->Meet(std::move(fd)); },
      [](const Status&) {});
  ONECOPY_RETURN_IF_ERROR(holder->acceptor_->Start());
  holder->timer_ = loop.RunAfter(holder->patience_, [self] { self->GiveUp(); });
  return holder;
}

Holder::~Holder() {
  loop_.CancelTimer(timer_);
  for (const auto& [number, connection] : connections_) loop_.Unwatch(number);
}

void Holder::Meet(os::UniqueFd connection) {
  const Result<os::PeerProcess> peer = os::UnixPeer(connection.get());
  if (!peer.ok() || peer->uid != ::geteuid() || connections_.size() >= kMostConnections) return;
  const int number = connection.get();
  if (!loop_.Watch(number, EPOLLIN, [this, number](uint32_t) { Read(number); }).ok()) return;
  connections_[number] = std::move(connection);
}

void Holder::Read(int connection) {
  while (connections_.contains(connection)) {
    Result<std::optional<os::Packet>> packet = os::ReceivePacket(connection, sizeof(Message));
    if (packet.ok() && !packet->has_value()) return;
    if (!packet.ok() || (*packet)->end) return Part(connection);
    const std::optional<Message> asked = Message::Parse((*packet)->bytes);
    if (!asked || (*packet)->bytes_cut) return Part(connection);
    Answer(connection, *asked, **packet);
  }
}

void Holder::Part(int connection) {
  loop_.Unwatch(connection);
  connections_.erase(connection);
  if (connection != daemon_) return;
  daemon_ = -1;
  timer_ = loop_.RunAfter(patience_, [this] { GiveUp(); });
}

void Holder::Answer(int connection, const Message& asked, os::Packet& packet) {
  Message answer;
  answer.number = asked.number;
  answer.what = What::kUnknown;
  if (asked.protocol == kProtocol && asked.what == What::kHello) {
    answer.what = daemon_ >= 0 && daemon_ != connection ? What::kBusy : What::kDone;
    if (answer.what == What::kDone) {
      daemon_ = connection;
      patience_ = std::min<std::chrono::milliseconds>(
          std::chrono::milliseconds(std::min<uint64_t>(asked.value, INT64_MAX)), kMostPatience);
      loop_.CancelTimer(std::exchange(timer_, 0));
      answer.value = held_.size();
    }
  } else if (asked.protocol == kProtocol && connection == daemon_) {
    if (asked.what == What::kNext) return SendNext(connection, asked.number);
    if (asked.what == What::kHold) answer = Hold(asked, packet);
    if (asked.what == What::kRelease || asked.what == What::kReleaseAll) {
      if (asked.what == What::kRelease) {
        held_.erase(asked.number);
      } else {
        held_.clear();
      }
      answer.what = What::kDone;
    }
  }
  // A daemon waits for each answer. One that does not read them is broken.
  if (!os::SendPacket(connection, answer.bytes()).ok()) Part(connection);
}

Message Holder::Hold(const Message& asked, os::Packet& packet) {
  Message answer;
  answer.number = asked.number;
  if (packet.fds_cut || packet.fds.size() != 1) {
    answer.what = packet.fds_cut ? What::kFull : What::kUnknown;
    return answer;
  }
  held_[asked.number] = std::move(packet.fds.front());
  answer.what = What::kDone;
  return answer;
}

void Holder::SendNext(int connection, uint64_t after) {
  const auto next = held_.upper_bound(after);
  Message answer;
  answer.what = next == held_.end() ? What::kEnd : What::kItem;
  Status sent;
  if (next == held_.end()) {
    sent = os::SendPacket(connection, answer.bytes());
  } else {
    answer.number = next->first;
    sent = os::SendPacket(connection, answer.bytes(), next->second.get());
  }
  if (!sent.ok()) Part(connection);
}

void Holder::GiveUp() {
  timer_ = 0;
  held_.clear();
  if (over_) over_();
}

}  // namespace onecopy::holder
