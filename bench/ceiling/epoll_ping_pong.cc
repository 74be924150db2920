// A ping-pong by epoll, with the tcp link's calls.
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "bench/ceiling/event_wait.h"
#include "bench/ceiling/ping_pong.h"

namespace onecopy::bench {
namespace {

// One socket, and whether it waits for room to send.
class WatchedSocket {
 public:
  WatchedSocket(int fd, Epoll epoll) : fd_(fd), epoll_(std::move(epoll)) {}
  static Result<WatchedSocket> Create(int fd) {
    ONECOPY_ASSIGN_OR_RETURN(Epoll epoll, Epoll::Create());
    ONECOPY_RETURN_IF_ERROR(epoll.Add(fd, EPOLLIN, 0));
    return WatchedSocket(fd, std::move(epoll));
  }

  int fd() const { return fd_; }
  Status WantRoom(bool wanted) {
    if (wanted == wants_room_) return OkStatus();
    wants_room_ = wanted;
    return epoll_.Change(fd_, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, 0);
  }
  Result<uint32_t> Wait() {
    uint32_t events = 0;
    ONECOPY_RETURN_IF_ERROR(epoll_.Wait([&](unsigned, uint32_t happened) {
      events = happened;
      return OkStatus();
    }));
    return events;
  }

 private:
  int fd_;
  Epoll epoll_;
  bool wants_room_ = false;
};

Status Broken(ssize_t moved) {
  return os::ErrnoStatus(moved == 0 ? ECONNRESET : errno, "a ping-pong by epoll");
}

class EpollAsker final : public Asker {
 public:
  EpollAsker(WatchedSocket socket, const Many& many, std::byte* destination)
      : socket_(std::move(socket)), pieces_(many, destination) {}

  Status Move(unsigned count) override {
    pieces_.Want(count);
    while (true) {
      pieces_.Ask(questions_);
      ONECOPY_RETURN_IF_ERROR(Send());
      if (pieces_.all_here()) return OkStatus();
      ONECOPY_ASSIGN_OR_RETURN(const uint32_t events, socket_.Wait());
      if ((events & ~uint32_t{EPOLLOUT}) != 0) ONECOPY_RETURN_IF_ERROR(Receive());
    }
  }

 private:
  Status Send() {
    for (auto next = questions_.Next(); !next.empty(); next = questions_.Next()) {
      const ssize_t sent = ::send(socket_.fd(), next.data(), next.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return socket_.WantRoom(true);
      if (sent <= 0) return Broken(sent);
      questions_.Sent(static_cast<uint64_t>(sent));
    }
    return socket_.WantRoom(false);
  }

  Status Receive() {
    while (true) {
      const std::span<std::byte> place = pieces_.Place(0);
      const ssize_t got = ::recv(socket_.fd(), place.data(), place.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return OkStatus();
      if (got <= 0) return Broken(got);
      pieces_.Arrived(static_cast<uint64_t>(got));
    }
  }

  WatchedSocket socket_;
  Pieces pieces_;
  Questions questions_;
};

class EpollAnswerer final : public Answerer {
 public:
  EpollAnswerer(WatchedSocket socket, std::byte* source)
      : socket_(std::move(socket)), answers_(source) {}

  Status Answer(unsigned count) override {
    while (answers_.answered() < count) {
      ONECOPY_ASSIGN_OR_RETURN(const uint32_t events, socket_.Wait());
      if ((events & ~uint32_t{EPOLLOUT}) != 0) ONECOPY_RETURN_IF_ERROR(Receive());
      ONECOPY_RETURN_IF_ERROR(Send());
    }
    return OkStatus();
  }

 private:
  // Once: what is left shows itself again.
  Status Receive() {
    const std::span<std::byte> inbox = answers_.Inbox();
    const ssize_t got = ::recv(socket_.fd(), inbox.data(), inbox.size(), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return OkStatus();
    if (got <= 0) return Broken(got);
    answers_.Arrived(static_cast<uint64_t>(got));
    return OkStatus();
  }

  Status Send() {
    while (answers_.waiting() > 0) {
      Answers::Vector vector;
      msghdr message = {};
      message.msg_iov = vector.data();
      message.msg_iovlen = answers_.Fill(vector, 0);
      const ssize_t sent = ::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return socket_.WantRoom(true);
      if (sent <= 0) return Broken(sent);
      answers_.Sent(static_cast<uint64_t>(sent));
    }
    return socket_.WantRoom(false);
  }

  WatchedSocket socket_;
  Answers answers_;
};

}  // namespace

Result<std::unique_ptr<Asker>> MakeEpollAsker(int fd, const Many& many, std::byte* destination) {
  ONECOPY_ASSIGN_OR_RETURN(WatchedSocket socket, WatchedSocket::Create(fd));
  return std::unique_ptr<Asker>(std::make_unique<EpollAsker>(std::move(socket), many, destination));
}

Result<std::unique_ptr<Answerer>> MakeEpollAnswerer(int fd, std::byte* source) {
  ONECOPY_ASSIGN_OR_RETURN(WatchedSocket socket, WatchedSocket::Create(fd));
  return std::unique_ptr<Answerer>(std::make_unique<EpollAnswerer>(std::move(socket), source));
}

}  // namespace onecopy::bench
