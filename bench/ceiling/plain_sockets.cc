#include "bench/ceiling/plain_sockets.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "bench/ceiling/together.h"
#include "transport/os/base/error.h"

namespace onecopy::bench {
namespace {

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

}  // namespace

Result<std::unique_ptr<Mover>> PlainSockets::Create(const SocketsWay& way) {
  std::unique_ptr<PlainSockets> sockets(new PlainSockets(way));
  ONECOPY_ASSIGN_OR_RETURN(sockets->memory_,
                           LaneMemory::Create({.bytes = way.bytes,
                                               .lanes = way.lanes,
                                               .reused_bytes = way.reused ? way.call_bytes : 0}));
  ONECOPY_ASSIGN_OR_RETURN(sockets->lanes_, ConnectOverLoopback(way.lanes));
  return std::unique_ptr<Mover>(std::move(sockets));
}

Status PlainSockets::Fill(uint64_t seed) {
  memory_.Fill(seed);
  return OkStatus();
}

Result<Moved> PlainSockets::Move() {
  std::vector<int> errors(2 * lanes_.size(), 0);
  std::vector<std::function<void()>> jobs;
  for (unsigned i = 0; i < way_.lanes; ++i) {
    const auto part = [&](const os::UniqueFd& socket, std::span<std::byte> buffer) {
      return Part{socket.get(), buffer.data(), buffer.size(), memory_.StripeBytes(i),
                  way_.call_bytes};
    };
    jobs.emplace_back([&errors, i, sent = part(lanes_[i].sender, memory_.Source(i))] {
      errors[2 * i] = SendAll(sent);
    });
    jobs.emplace_back([&errors, i, received = part(lanes_[i].receiver, memory_.Destination(i))] {
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

Result<bool> PlainSockets::Verify(uint64_t seed) { return memory_.Verify(seed); }

}  // namespace onecopy::bench
