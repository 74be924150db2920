#include "bench/ceiling/plain_sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "bench/ceiling/together.h"
#include "bench/measure/payload.h"
#include "transport/os/error.h"
#include "transport/os/host_port.h"

namespace onecopy::bench {
namespace {

constexpr int kConnectLimitMs = 10'000;
// Of one send or recv. Longer calls are slower (by a third where all that is left is offered at
// once): the receiver then begins when much of it has left the cache already; so are shorter ones.
constexpr uint64_t kCallBytes = uint64_t{256} << 10;

Status WaitFor(int fd, short events, const char* what) {
  pollfd wanted = {fd, events, 0};
  int ready = 0;
  while ((ready = ::poll(&wanted, 1, kConnectLimitMs)) < 0 && errno == EINTR) {
  }
  return ready == 1 ? OkStatus() : os::ErrnoStatus(ready == 0 ? ETIMEDOUT : errno, what);
}

Status MakePlain(int fd) {
  const int on = 1;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0 ||
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
    return os::ErrnoStatus(errno, "setting up a socket");
  }
  return OkStatus();
}

// Both move all of it, or return the error that ended them.
int SendAll(int fd, const std::byte* data, uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, data, std::min(bytes, kCallBytes), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno;
    data += sent;
    bytes -= static_cast<uint64_t>(sent);
  }
  return 0;
}

int ReceiveAll(int fd, std::byte* data, uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t received = ::recv(fd, data, std::min(bytes, kCallBytes), 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return received == 0 ? ECONNRESET : errno;
    data += received;
    bytes -= static_cast<uint64_t>(received);
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<Mover>> PlainSockets::Create(uint64_t bytes, unsigned lanes) {
  std::unique_ptr<PlainSockets> sockets(new PlainSockets);
  ONECOPY_ASSIGN_OR_RETURN(sockets->source_, os::MapAnonymous(bytes));
  ONECOPY_ASSIGN_OR_RETURN(sockets->destination_, os::MapAnonymous(bytes));
  ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd listener,
                           os::ListenTcp({"127.0.0.1", 0}, static_cast<int>(lanes)));
  for (unsigned i = 0; i < lanes; ++i) {
    ONECOPY_RETURN_IF_ERROR(sockets->AddLane(listener.get()));
  }
  std::memset(sockets->destination_.data(), 0, bytes);  // resident from here on
  return std::unique_ptr<Mover>(std::move(sockets));
}

Status PlainSockets::AddLane(int listener) {
  ONECOPY_ASSIGN_OR_RETURN(const os::HostPort address, os::LocalAddress(listener));
  Lane lane;
  ONECOPY_ASSIGN_OR_RETURN(lane.sender, os::ConnectTcp(address));
  ONECOPY_RETURN_IF_ERROR(WaitFor(listener, POLLIN, "accepting a connection to this process"));
  lane.receiver = os::UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!lane.receiver) return os::ErrnoStatus(errno, "accepting a connection to this process");
  ONECOPY_RETURN_IF_ERROR(WaitFor(lane.sender.get(), POLLOUT, "connecting to this process"));
  ONECOPY_RETURN_IF_ERROR(os::ConnectError(lane.sender.get()));
  ONECOPY_RETURN_IF_ERROR(MakePlain(lane.sender.get()));
  ONECOPY_RETURN_IF_ERROR(MakePlain(lane.receiver.get()));
  lanes_.push_back(std::move(lane));
  return OkStatus();
}

Status PlainSockets::Fill(uint64_t seed) {
  FillPayload(source_.data(), source_.bytes(), seed);
  return OkStatus();
}

Result<Moved> PlainSockets::Move() {
  const auto lanes = static_cast<unsigned>(lanes_.size());
  std::vector<int> errors(2 * lanes_.size(), 0);
  std::vector<std::function<void()>> jobs;
  for (unsigned i = 0; i < lanes; ++i) {
    const Stripe stripe = StripeOf(source_.bytes(), lanes, i);
    jobs.emplace_back([this, i, stripe, &errors] {
      errors[2 * i] =
          SendAll(lanes_[i].sender.get(), source_.data() + stripe.begin, stripe.bytes());
    });
    jobs.emplace_back([this, i, stripe, &errors] {
      errors[2 * i + 1] =
          ReceiveAll(lanes_[i].receiver.get(), destination_.data() + stripe.begin, stripe.bytes());
    });
  }
  Moved moved;
  moved.seconds = SecondsTogether(jobs);
  moved.lanes = lanes;
  for (const int error : errors) {
    if (error != 0) return os::ErrnoStatus(error, "the plain sockets of the ceiling");
  }
  return moved;
}

Result<bool> PlainSockets::Verify(uint64_t seed) {
  return !FindWrong(destination_.data(), destination_.bytes(), seed);
}

}  // namespace onecopy::bench
