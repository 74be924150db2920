// A ping-pong by io_uring: what a turn has to send and to receive goes to the kernel in one call.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "bench/ceiling/ping_pong.h"
#include "transport/os/error.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kSend = 1;
constexpr uint64_t kReceive = 2;

// One socket, registered with a ring of its own, and what is under way on it.
class RingSocket {
 public:
  Status Create(int fd, const RingWay& way) {
    // Chains of both directions.
    ONECOPY_ASSIGN_OR_RETURN(
        ring_, Ring::Create({.entries = 2 * way.chain, .deferred = way.deferred, .files = {fd}}));
    return OkStatus();
  }

  // A thread's first call.
  Status EnableOnce() {
    if (enabled_) return OkStatus();
    enabled_ = true;
    return ring_->Enable();
  }

  io_uring_sqe* Prepare() { return ring_->Prepare(); }
  void Finish(io_uring_sqe* entry, uint64_t what, bool linked) {
    ++(what == kSend ? sends_ : receives_);
    Ring::Finish(entry, what, linked);
  }
  unsigned sends() const { return sends_; }
  unsigned receives() const { return receives_; }

  // Tells of each operation that moved something, as (what, bytes). What its chain cancelled is to
  // be begun again.
  template <typename Each>
  Status Turn(unsigned awaited, const Each& each) {
    ONECOPY_RETURN_IF_ERROR(ring_->SubmitAndWait(awaited));
    Status status = OkStatus();
    ring_->TakeCompletions([&](const io_uring_cqe& completion) {
      --(completion.user_data == kSend ? sends_ : receives_);
      const int moved = completion.res;
      if (moved == -ECANCELED || moved == -EINTR) return;
      if (moved > 0) return each(completion.user_data, static_cast<uint64_t>(moved));
      status = os::ErrnoStatus(moved == 0 ? ECONNRESET : -moved, "a ping-pong by io_uring");
    });
    return status;
  }

 private:
  std::unique_ptr<Ring> ring_;
  bool enabled_ = false;
  unsigned sends_ = 0;
  unsigned receives_ = 0;
};

class RingAsker final : public Asker {
 public:
  RingAsker(const Many& many, std::byte* destination, const RingWay& way)
      : pieces_(many, destination), way_(way) {}
  Status Create(int fd) { return socket_.Create(fd, way_); }

  Status Move(unsigned count) override {
    ONECOPY_RETURN_IF_ERROR(socket_.EnableOnce());
    pieces_.Want(count);
    while (!pieces_.all_here()) {
      pieces_.Ask(questions_);
      if (socket_.sends() == 0) BeginSend();
      if (socket_.receives() == 0) BeginReceives();
      // A question that has left is nothing to wake up for, unless others wait for that.
      const unsigned receives = questions_.waiting() ? 1 : std::min(way_.batch, socket_.receives());
      ONECOPY_RETURN_IF_ERROR(
          socket_.Turn(socket_.sends() + receives,
                       [this](uint64_t what, uint64_t bytes) { Moved(what, bytes); }));
    }
    return OkStatus();
  }

 private:
  void BeginSend() {
    const std::span<const std::byte> next = questions_.Next();
    if (next.empty()) return;
    io_uring_sqe* const entry = socket_.Prepare();
    io_uring_prep_send(entry, 0, next.data(), next.size(), MSG_WAITALL | MSG_NOSIGNAL);
    socket_.Finish(entry, kSend, false);
  }

  void BeginReceives() {
    const unsigned count = std::min(way_.chain, pieces_.under_way());
    for (unsigned i = 0; i < count; ++i) {
      const std::span<std::byte> place = pieces_.Place(i);
      io_uring_sqe* const entry = socket_.Prepare();
      io_uring_prep_recv(entry, 0, place.data(), place.size(), MSG_WAITALL);
      socket_.Finish(entry, kReceive, i + 1 < count);
    }
  }

  void Moved(uint64_t what, uint64_t bytes) {
    if (what == kSend) return questions_.Sent(bytes);
    pieces_.Arrived(bytes);
  }

  Pieces pieces_;
  const RingWay way_;
  RingSocket socket_;
  Questions questions_;
};

class RingAnswerer final : public Answerer {
 public:
  RingAnswerer(std::byte* source, const RingWay& way)
      : way_(way), answers_(source), messages_(way.chain) {}
  Status Create(int fd) { return socket_.Create(fd, way_); }

  Status Answer(unsigned count) override {
    ONECOPY_RETURN_IF_ERROR(socket_.EnableOnce());
    while (answers_.answered() < count) {
      if (socket_.receives() == 0 && answers_.arrived() < count) BeginReceive();
      if (socket_.sends() == 0) BeginSends();
      // While all that is known is on its way there is nothing to do before both have ended.
      const bool more = answers_.waiting() > sending_;
      const unsigned awaited = more ? 1 : socket_.sends() + socket_.receives();
      ONECOPY_RETURN_IF_ERROR(socket_.Turn(awaited, [this](uint64_t what, uint64_t bytes) {
        if (what == kReceive) return answers_.Arrived(bytes);
        const size_t before = answers_.waiting();
        answers_.Sent(bytes);
        sending_ -= before - answers_.waiting();
      }));
    }
    return OkStatus();
  }

 private:
  struct Message {
    msghdr header = {};
    Answers::Vector vector = {};
  };

  void BeginReceive() {
    const std::span<std::byte> inbox = answers_.Inbox();
    io_uring_sqe* const entry = socket_.Prepare();
    io_uring_prep_recv(entry, 0, inbox.data(), inbox.size(), 0);
    socket_.Finish(entry, kReceive, false);
  }

  void BeginSends() {
    sending_ = 0;
    for (Message& message : messages_) {
      const size_t count = answers_.Fill(message.vector, sending_);
      if (count == 0) return;
      sending_ += count;
      message.header.msg_iov = message.vector.data();
      message.header.msg_iovlen = count;
      io_uring_sqe* const entry = socket_.Prepare();
      io_uring_prep_sendmsg(entry, 0, &message.header, MSG_WAITALL | MSG_NOSIGNAL);
      const bool last = &message == &messages_.back() || sending_ == answers_.waiting();
      socket_.Finish(entry, kSend, !last);
    }
  }

  const RingWay way_;
  Answers answers_;
  std::vector<Message> messages_;
  size_t sending_ = 0;  // pieces that are in the messages under way
  RingSocket socket_;
};

}  // namespace

Result<std::unique_ptr<Asker>> MakeRingAsker(int fd, const Many& many, std::byte* destination,
                                             const RingWay& way) {
  auto asker = std::make_unique<RingAsker>(many, destination, way);
  ONECOPY_RETURN_IF_ERROR(asker->Create(fd));
  return std::unique_ptr<Asker>(std::move(asker));
}

Result<std::unique_ptr<Answerer>> MakeRingAnswerer(int fd, std::byte* source, const RingWay& way) {
  auto answerer = std::make_unique<RingAnswerer>(source, way);
  ONECOPY_RETURN_IF_ERROR(answerer->Create(fd));
  return std::unique_ptr<Answerer>(std::move(answerer));
}

}  // namespace onecopy::bench
