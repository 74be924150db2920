// Both ends of a ping-pong of small pieces, without saying how they wait: what they share.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "bench/ceiling/many.h"
#include "bench/ceiling/ring.h"

namespace onecopy::bench {

struct Question {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Questions on their way out. Those that wait while others are being sent go together after them.
class Questions {
 public:
  void Add(const Question& question) { waiting_.push_back(question); }
  // What is to be sent next, which stays where it is until Sent() has told of all of it.
  std::span<const std::byte> Next();
  void Sent(uint64_t bytes) { sent_ += bytes; }
  bool waiting() const { return !waiting_.empty(); }

 private:
  std::vector<Question> waiting_;
  std::vector<Question> sending_;
  uint64_t sent_ = 0;
};

// The pieces that an asker wants: those asked for and those that have come, in order.
class Pieces {
 public:
  Pieces(const Many& many, std::byte* destination) : many_(many), destination_(destination) {}

  void Want(unsigned count) { wanted_ += count; }
  // Puts questions for as many as may be under way.
  void Ask(Questions& questions) {
    while (asked_ < wanted_ && under_way() < many_.depth) {
      questions.Add({many_.OffsetOf(asked_++), many_.piece_bytes});
    }
  }
  bool all_here() const { return received_ == wanted_; }
  unsigned under_way() const { return asked_ - received_; }
  // Where the i-th under way goes, of the first what is still to come.
  std::span<std::byte> Place(unsigned i) const {
    const uint64_t have = i == 0 ? have_ : 0;
    return {destination_ + many_.OffsetOf(received_ + i) + have, many_.piece_bytes - have};
  }
  // Of the first under way.
  void Arrived(uint64_t bytes) {
    have_ += bytes;
    if (have_ < many_.piece_bytes) return;
    have_ = 0;
    ++received_;
  }

 private:
  const Many many_;
  std::byte* const destination_;
  unsigned wanted_ = 0;
  unsigned asked_ = 0;
  unsigned received_ = 0;
  uint64_t have_ = 0;
};

// Questions that arrive, and the pieces that answer them, in order.
class Answers {
 public:
  static constexpr size_t kVector = 32;  // pieces of one call, as the tcp link's
  using Vector = std::array<iovec, kVector>;

  explicit Answers(std::byte* source) : source_(source), inbox_(kInboxBytes) {}

  // Where what arrives goes, of which Arrived() then tells.
  std::span<std::byte> Inbox() { return std::span(inbox_).subspan(have_); }
  void Arrived(uint64_t bytes);
  // Pieces, or the rest of one, from the `from`-th that is not sent on: how many.
  size_t Fill(Vector& vector, size_t from) const;
  void Sent(uint64_t bytes);

  size_t waiting() const { return waiting_.size(); }
  unsigned arrived() const { return arrived_; }
  unsigned answered() const { return arrived_ - static_cast<unsigned>(waiting_.size()); }

 private:
  static constexpr size_t kInboxBytes = size_t{64} << 10;

  std::byte* const source_;
  std::vector<std::byte> inbox_;
  size_t have_ = 0;
  unsigned arrived_ = 0;
  std::deque<Question> waiting_;
  uint64_t sent_of_first_ = 0;
};

// Asks for pieces and receives them straight to where they belong, at most `depth` under way.
class Asker {
 public:
  virtual ~Asker() = default;
  // So many further pieces. Always on the same thread.
  virtual Status Move(unsigned count) = 0;
};

// Answers so many questions and ends.
class Answerer {
 public:
  virtual ~Answerer() = default;
  virtual Status Answer(unsigned count) = 0;
};

// Of sockets that do not block: epoll_wait, then send and recv until EAGAIN.
Result<std::unique_ptr<Asker>> MakeEpollAsker(int fd, const Many& many, std::byte* destination);
Result<std::unique_ptr<Answerer>> MakeEpollAnswerer(int fd, std::byte* source);
// Of sockets that block, each with a ring of its own. Fails as Ring::Create does.
Result<std::unique_ptr<Asker>> MakeRingAsker(int fd, const Many& many, std::byte* destination,
                                             const RingWay& way);
Result<std::unique_ptr<Answerer>> MakeRingAnswerer(int fd, std::byte* source, const RingWay& way);

}  // namespace onecopy::bench
