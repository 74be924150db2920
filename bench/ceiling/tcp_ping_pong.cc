#include "bench/ceiling/tcp_ping_pong.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "bench/ceiling/loopback.h"
#include "bench/measure/payload.h"
#include "transport/os/base/error.h"

namespace onecopy::bench {
namespace {

using Question = std::array<uint64_t, 2>;

bool SendAll(int fd, const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, from, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int fd, void* data, size_t bytes) {
  return ::recv(fd, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

}  // namespace

Result<std::unique_ptr<Mover>> TcpPingPong::Create(const Many& many) {
  std::unique_ptr<TcpPingPong> made(new TcpPingPong(many));
  ONECOPY_RETURN_IF_ERROR(made->Begin());
  return std::unique_ptr<Mover>(std::move(made));
}

Status TcpPingPong::Begin() {
  ONECOPY_ASSIGN_OR_RETURN(source_, os::MapAnonymous(many_.bytes()));
  ONECOPY_ASSIGN_OR_RETURN(destination_, os::MapAnonymous(many_.bytes()));
  ONECOPY_ASSIGN_OR_RETURN(std::vector<SocketPair> pairs, ConnectOverLoopback(1));
  here_ = std::move(pairs[0].sender);
  there_ = std::move(pairs[0].receiver);
  far_end_ = std::thread([this] { Answer(); });
  return OkStatus();
}

TcpPingPong::~TcpPingPong() {
  if (here_) ::shutdown(here_.get(), SHUT_RDWR);
  if (far_end_.joinable()) far_end_.join();
}

void TcpPingPong::Answer() {
  Question question{};
  while (ReceiveAll(there_.get(), &question, sizeof question)) {
    if (!SendAll(there_.get(), source_.data() + question[0], question[1])) return;
  }
}

Status TcpPingPong::Ask(uint64_t offset) {
  const Question question = {offset, many_.piece_bytes};
  if (SendAll(here_.get(), &question, sizeof question)) return OkStatus();
  return os::ErrnoStatus(errno, "asking over loopback");
}

Status TcpPingPong::Receive(uint64_t offset) {
  if (ReceiveAll(here_.get(), destination_.data() + offset, many_.piece_bytes)) return OkStatus();
  return os::ErrnoStatus(errno, "receiving over loopback");
}

Status TcpPingPong::Fill(uint64_t seed) {
  FillPayload(source_.data(), source_.bytes(), seed);
  return OkStatus();
}

Result<Moved> TcpPingPong::Move() {
  if (many_.depth == 1) {
    return OneByOne(many_, [this](uint64_t offset) -> Status {
      ONECOPY_RETURN_IF_ERROR(Ask(offset));
      return Receive(offset);
    });
  }
  return AllAtOnce(many_, [this]() -> Status {
    unsigned asked = 0;
    for (unsigned received = 0; received < many_.count; ++received) {
      while (asked < many_.count && asked - received < many_.depth) {
        ONECOPY_RETURN_IF_ERROR(Ask(many_.OffsetOf(asked++)));
      }
      ONECOPY_RETURN_IF_ERROR(Receive(many_.OffsetOf(received)));
    }
    return OkStatus();
  });
}

Result<bool> TcpPingPong::Verify(uint64_t seed) {
  return !FindWrong(destination_.data(), destination_.bytes(), seed);
}

}  // namespace onecopy::bench
