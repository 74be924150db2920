#include "bench/ceiling/plain_sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

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

// What one end of a lane moves: `bytes` of a stripe through a buffer, from its begin again wherever
// it ends.
struct Part {
  int fd = -1;
  std::byte* buffer = nullptr;
  uint64_t buffer_bytes = 0;
  uint64_t bytes = 0;
  uint64_t call_bytes = 0;
};

// Moves all of it by `call`, or returns the error that ended it.
template <typename Call>
int MoveAll(const Part& part, const Call& call) {
  for (uint64_t done = 0; done < part.bytes;) {
    const uint64_t at = done % part.buffer_bytes;
    const uint64_t most = std::min({part.bytes - done, part.buffer_bytes - at, part.call_bytes});
    const ssize_t moved = call(part.fd, part.buffer + at, most);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved == 0 ? ECONNRESET : errno;
    done += static_cast<uint64_t>(moved);
  }
  return 0;
}

int SendAll(const Part& part) {
  return MoveAll(part, [](int fd, const std::byte* data, uint64_t bytes) {
    return ::send(fd, data, bytes, MSG_NOSIGNAL);
  });
}

int ReceiveAll(const Part& part) {
  return MoveAll(
      part, [](int fd, std::byte* data, uint64_t bytes) { return ::recv(fd, data, bytes, 0); });
}

double ProcessCpuSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

}  // namespace

uint64_t PlainSockets::BufferBegin(unsigned lane) const {
  return way_.reused ? lane * way_.call_bytes : StripeOf(way_.bytes, way_.lanes, lane).begin;
}

uint64_t PlainSockets::BufferBytes(unsigned lane) const {
  const uint64_t stripe = StripeOf(way_.bytes, way_.lanes, lane).bytes();
  return way_.reused ? std::min(stripe, way_.call_bytes) : stripe;
}

Result<std::unique_ptr<Mover>> PlainSockets::Create(const SocketsWay& way) {
  std::unique_ptr<PlainSockets> sockets(new PlainSockets(way));
  const uint64_t bytes = way.reused ? way.lanes * way.call_bytes : way.bytes;
  ONECOPY_ASSIGN_OR_RETURN(sockets->source_, os::MapAnonymous(bytes));
  ONECOPY_ASSIGN_OR_RETURN(sockets->destination_, os::MapAnonymous(bytes));
  ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd listener,
                           os::ListenTcp({"127.0.0.1", 0}, static_cast<int>(way.lanes)));
  for (unsigned i = 0; i < way.lanes; ++i) {
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
  std::vector<int> errors(2 * lanes_.size(), 0);
  std::vector<std::function<void()>> jobs;
  for (unsigned i = 0; i < way_.lanes; ++i) {
    const auto part = [&](const os::UniqueFd& socket, const os::Mapping& memory) {
      return Part{socket.get(), memory.data() + BufferBegin(i), BufferBytes(i),
                  StripeOf(way_.bytes, way_.lanes, i).bytes(), way_.call_bytes};
    };
    jobs.emplace_back(
        [&errors, i, sent = part(lanes_[i].sender, source_)] { errors[2 * i] = SendAll(sent); });
    jobs.emplace_back([&errors, i, received = part(lanes_[i].receiver, destination_)] {
      errors[2 * i + 1] = ReceiveAll(received);
    });
  }
  Moved moved;
  const double cpu_before = ProcessCpuSeconds();
  moved.seconds = SecondsTogether(jobs);
  moved.cpu_seconds = ProcessCpuSeconds() - cpu_before;
  moved.lanes = way_.lanes;
  moved.loopback = true;
  for (const int error : errors) {
    if (error != 0) return os::ErrnoStatus(error, "the plain sockets of the ceiling");
  }
  return moved;
}

Result<bool> PlainSockets::Verify(uint64_t seed) {
  if (!way_.reused) return !FindWrong(destination_.data(), destination_.bytes(), seed);
  // Each sample's payload differs from the one before, so what is right now arrived in it.
  for (unsigned i = 0; i < way_.lanes; ++i) {
    const uint64_t begin = BufferBegin(i);
    if (std::memcmp(source_.data() + begin, destination_.data() + begin, BufferBytes(i)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace onecopy::bench
