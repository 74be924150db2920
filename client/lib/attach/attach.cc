#include "client/lib/attach/attach.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/v1/attach.pb.h"
#include "proto/codec/protocol.h"
#include "proto/codec/status_codec.h"
#include "proto/codec/utf8.h"
#include "transport/os/base/error.h"
#include "transport/os/files/path_owners.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::client {
namespace {

// The path must have passed CheckSocketPath.
sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

void SetTimeout(int fd, std::chrono::milliseconds timeout) {
  timeval value{};
  value.tv_sec = timeout.count() / 1000;
  value.tv_usec = timeout.count() % 1000 * 1000;
  // Cannot fail on a socket with a time in range; without it a silent daemon would be waited for.
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof value);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof value);
}

constexpr size_t kMostPassed = 2;  // with one request

ssize_t Send(int socket, const std::string& packet, std::span<const int> fds) {
  iovec piece{const_cast<char*>(packet.data()), packet.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostPassed * sizeof(int))> control{};
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

// Whether something comes, or the socket's end does, within the thread's CallLimit.
bool Comes(int socket) {
  pollfd polled{socket, POLLIN, 0};
  for (;;) {
    const auto left = CallLimit::Left();
    const int timeout =
        left ? static_cast<int>(std::min<int64_t>(left->count(), std::numeric_limits<int>::max()))
             : -1;
    const int ready = ::poll(&polled, 1, timeout);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// Within the thread's CallLimit, or EAGAIN. `cut`: whether descriptors came for which this process
// had no room.
ssize_t Receive(int socket, std::string& packet, std::vector<os::UniqueFd>& fds, bool& cut) {
  if (!Comes(socket)) {
    errno = EAGAIN;
    return -1;
  }
  packet.resize(kMaxAttachBytes);
  iovec room{packet.data(), packet.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(os::kMaxPassedFds * sizeof(int))> control;
  msghdr message{};
  message.msg_iov = &room;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t received = 0;
  do {
    received = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  packet.resize(received > 0 ? static_cast<size_t>(received) : 0);
  if (received < 0) return received;
  cut = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t i = 0; i < (part->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return received;
}

std::string WhyBroken(int error) {
  if (error == EAGAIN || error == EWOULDBLOCK) return "it does not answer";
  return os::ErrnoText(error);
}

// What a failure of the socket means to a thread with that limit.
Status Unanswered(const RunDir& run_dir, int error, const CallLimit::Time& limit) {
  if (error != EAGAIN || !limit || *limit > CallLimit::Clock::now()) {
    return Unreachable(run_dir, WhyBroken(error));
  }
  return {Code::kDeadlineExceeded, reasons::kDeadline,
          "the onecopyd in " + run_dir.path + " did not answer in time",
          "see in its log what keeps it busy, or allow more time"};
}

}  // namespace

AttachSocket::AttachSocket(os::UniqueFd socket, RunDir run_dir, std::chrono::milliseconds timeout)
    : run_dir_(std::move(run_dir)), timeout_(timeout), socket_(std::move(socket)) {}

AttachSocket::AttachSocket(AttachSocket&& other) noexcept
    : run_dir_(std::move(other.run_dir_)),
      timeout_(other.timeout_),
      token_(std::move(other.token_)),
      node_(std::move(other.node_)),
      version_(std::move(other.version_)),
      ring_layout_(other.ring_layout_),
      slab_layout_(other.slab_layout_),
      maps_(other.maps_),
      files_(other.files_),
      takes_dma_bufs_(other.takes_dma_bufs_),
      keeps_buffers_(other.keeps_buffers_),
      socket_(std::move(other.socket_)) {}

AttachSocket::~AttachSocket() {
  if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

bool AttachSocket::EndsWithin(std::chrono::milliseconds limit) const {
  pollfd polled{socket_.get(), POLLRDHUP, 0};
  // A signal may end it early, as if it were not known yet.
  ::poll(&polled, 1, static_cast<int>(limit.count()));
  return (polled.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Result<AttachSocket> AttachSocket::Connect(const RunDir& run_dir, const std::string& program,
                                           std::chrono::milliseconds timeout) {
  const std::string path = run_dir.path + "/" + kAttachSocket;
  ONECOPY_RETURN_IF_ERROR(os::CheckSocketPath(path));
  const Status owners = os::CheckPathOwners(run_dir.path, os::PathTrust::kWhereShared);
  if (!owners.ok()) {
    return Status(owners.code(), owners.reason(),
                  owners.message() + ", and could pose as the daemon of that run directory",
                  "give the daemon a run directory that others cannot write to, and name it with "
                  "--run-dir or ONECOPY_RUN_DIR");
  }
  const sockaddr_un address = AddressOf(path);
  os::UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return os::ErrnoStatus(errno, "making a socket for " + path);
  constexpr std::chrono::milliseconds kLeast{1};  // 0 would be for ever
  const std::chrono::milliseconds limit = CallLimit::Left().value_or(timeout);
  SetTimeout(socket.get(), std::max(kLeast, std::min(timeout, limit)));
  int connected = 0;
  do {
    connected =
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (connected != 0 && errno == EINTR);
  if (connected != 0) {
    switch (errno) {
      case EACCES:
      case EPERM:
        return os::ErrnoStatus(errno, "connecting to " + path,
                               "ask the administrator of onecopyd for access to its run directory");
      case ENOENT:
      case ENOTDIR:
        return Unreachable(run_dir, "there is no " + std::string(kAttachSocket));
      case ECONNREFUSED:
        return Unreachable(
            run_dir, "no program listens at " + path + "; an earlier onecopyd left it behind");
      case EAGAIN:  // its queue stayed full
        return Unanswered(run_dir, errno, CallLimit::Current());
      default:
        return Unreachable(run_dir, "connecting to " + path + ": " + WhyBroken(errno));
    }
  }
  SetTimeout(socket.get(), timeout);
  AttachSocket attach(std::move(socket), run_dir, timeout);
  ONECOPY_RETURN_IF_ERROR(attach.Greet(program));
  return attach;
}

Status AttachSocket::Greet(const std::string& program) {
  v1::AttachRequest request;
  request.mutable_hello()->set_protocol_min(kClientProtocolMin);
  request.mutable_hello()->set_protocol_max(kClientProtocolMax);
  request.mutable_hello()->set_client(ToUtf8(program));
  ONECOPY_ASSIGN_OR_RETURN(const v1::AttachReply reply, Exchange(request, {}));
  ONECOPY_RETURN_IF_ERROR(TakeWelcome(reply));
  return reply.welcome().alone() ? ShowNamespaces() : OkStatus();
}

Status AttachSocket::ShowNamespaces() {
  const os::UniqueFd user(::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC));
  const os::UniqueFd pid(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
  if (!user || !pid) return OkStatus();  // without /proc there is nothing to show
  v1::AttachRequest request;
  request.mutable_show_namespaces();
  const Result<v1::AttachReply> reply = Exchange(request, std::array{user.get(), pid.get()});
  // A refusal leaves the session as it is; a connection that has ended does not.
  if (reply.ok()) return TakeWelcome(*reply);
  return reply.status().code() == Code::kInvalidArgument ? OkStatus() : reply.status();
}

Status AttachSocket::TakeWelcome(const v1::AttachReply& reply) {
  if (!reply.has_welcome()) return Unreachable(run_dir_, "it answered with an unknown message");
  const v1::AttachReply::Welcome& welcome = reply.welcome();
  if (welcome.protocol() < kClientProtocolMin || welcome.protocol() > kClientProtocolMax) {
    return {Code::kUnavailable, reasons::kPeerIncompatible,
            "the onecopyd in " + run_dir_.path + " (version " + welcome.version() +
                ") speaks protocol " + std::to_string(welcome.protocol()) + ", this client only " +
                std::to_string(kClientProtocolMin) + " to " + std::to_string(kClientProtocolMax),
            "install the same version of onecopyd and of its clients"};
  }
  token_ = welcome.token();
  node_ = welcome.node();
  version_ = welcome.version();
  ring_layout_ = welcome.ring_layout();
  slab_layout_ = welcome.slab_layout();
  maps_ = welcome.maps();
  files_ = welcome.files();
  takes_dma_bufs_ = !welcome.takes_no_dma_bufs();
  keeps_buffers_ = welcome.keeps_buffers();
  return OkStatus();
}

Result<uint64_t> AttachSocket::PassDescriptor(int fd, bool file) {
  if (fd < 0) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  std::to_string(fd) + " is not a file descriptor");
  }
  v1::AttachRequest request;
  request.mutable_pass_descriptor()->set_file(file);
  ONECOPY_ASSIGN_OR_RETURN(const v1::AttachReply reply, Exchange(request, {&fd, 1}));
  if (!reply.has_passed()) return Unreachable(run_dir_, "it answered with an unknown message");
  return reply.passed().fd_handle();
}

Result<v1::AttachReply> AttachSocket::Ask(const v1::AttachRequest& request,
                                          std::vector<os::UniqueFd>* fds) {
  return Exchange(request, {}, fds);
}

Result<v1::AttachReply> AttachSocket::Exchange(const v1::AttachRequest& request,
                                               std::span<const int> passed,
                                               std::vector<os::UniqueFd>* fds) {
  const CallLimit::Time limit = CallLimit::Current();
  const CallLimit own(CallLimit::Clock::now() + timeout_);
  const Turn::Held turn(turn_);
  return turn ? ExchangeInTurn(request, passed, fds, limit) : Unanswered(run_dir_, EAGAIN, limit);
}

Result<v1::AttachReply> AttachSocket::ExchangeInTurn(const v1::AttachRequest& request,
                                                     std::span<const int> passed,
                                                     std::vector<os::UniqueFd>* fds,
                                                     const CallLimit::Time& limit) {
  std::string packet;
  bool cut = false;
  for (; missed_ > 0; --missed_) {
    std::vector<os::UniqueFd> late;
    const ssize_t received = Receive(socket_.get(), packet, late, cut);
    if (received < 0) return Unanswered(run_dir_, errno, limit);
    if (received == 0) return Unreachable(run_dir_, "it closed the connection");
  }
  packet = request.SerializeAsString();
  if (Send(socket_.get(), packet, passed) < 0) {
    if (errno == EBADF && !passed.empty()) {
      return Status(Code::kInvalidArgument, reasons::kBadHandle,
                    std::to_string(passed.front()) + " is not an open file descriptor");
    }
    if (errno == ETOOMANYREFS) {
      return os::ErrnoStatus(errno, "sending a descriptor to the onecopyd in " + run_dir_.path);
    }
    // A daemon that turns its client away may have said why.
    if (errno != EPIPE) return Unreachable(run_dir_, WhyBroken(errno));
  }
  std::vector<os::UniqueFd> came;
  const ssize_t received = Receive(socket_.get(), packet, came, cut);
  if (received < 0) {
    ++missed_;
    return Unanswered(run_dir_, errno, limit);
  }
  if (received == 0) return Unreachable(run_dir_, "it closed the connection");
  v1::AttachReply reply;
  if (!reply.ParseFromString(packet)) {
    return Unreachable(run_dir_, "its answer is not in onecopy's protocol");
  }
  if (reply.has_error()) {
    Status status = FromProto(reply.error());
    if (!status.ok()) return status;
    return Unreachable(run_dir_, "it answered with an unknown message");
  }
  if (cut) {
    return os::ErrnoStatus(
        EMFILE,
        "this process could not receive the descriptors from the onecopyd in " + run_dir_.path);
  }
  if (fds != nullptr) *fds = std::move(came);
  return reply;
}

}  // namespace onecopy::client
