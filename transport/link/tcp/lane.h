// One socket of a connection: sends frames in order, and receives bodies straight to where they
// belong. Messages, which lane 0 carries and nothing else, and questions for payload come many at a
// time, through a buffer.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/core/region.h"
#include "transport/core/result.h"
#include "transport/link/tcp/exposures.h"
#include "transport/link/tcp/frame.h"
#include "transport/link/tcp/zero_copy.h"
#include "transport/os/event_loop.h"
#include "transport/os/unique_fd.h"

namespace onecopy::tcp {

// What a lane tells its connection; calls come on the lane's thread.
class LaneOwner {
 public:
  virtual ~LaneOwner() = default;
  // A get has ended; nothing writes to its memory any more. `owner_accounts`: what its owner did
  // for it, the owner tells when the bytes are withdrawn.
  virtual void GetEnded(unsigned lane, uint64_t tag, Status status, bool owner_accounts) = 0;
  virtual void MessageArrived(uint64_t channel, std::span<const std::byte> message) = 0;
  // The socket is done for. The lane has closed itself and ended its gets.
  virtual void LaneFailed(unsigned lane, Status status) = 0;
  virtual const Exposures& exposures() const = 0;
};

// Lives on its loop's thread after construction; every method but loop() is called there. A closed
// lane ignores what it is asked; its connection, which it has told, ends what was asked too late.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  Lane(unsigned index, os::EventLoop& loop, os::UniqueFd fd, ZeroCopyUse zero_copy);

  os::EventLoop& loop() const { return loop_; }

  // Begins to send and receive; `owner` is kept until the lane is closed. The accepting side sends
  // WELCOME first: the peer then knows that the lane is ready for whatever it sends.
  void Start(std::shared_ptr<LaneOwner> owner, bool send_welcome);

  // Reader: asks for bytes by a header of GET or GET_COPIED; ends with LaneOwner::GetEnded.
  void Get(const FrameHeader& get, Span into);
  // Reader: ends these gets with CANCELLED at once; bytes that still come for them are thrown away.
  void Abandon(const std::vector<uint64_t>& tags);
  // Lane 0 only. Messages, questions and answers of one turn of the loop leave together at its end.
  void SendMessage(uint64_t channel, std::string message);
  // Ends the outstanding gets with `why`.
  void Close(const Status& why);

  // The kernel's counters of payload and headers that went through this socket.
  struct Counters {
    uint64_t bytes_received = 0;
    uint64_t bytes_acknowledged = 0;
  };
  Counters ReadCounters() const;

 private:
  struct Outgoing {
    HeaderBytes header{};
    ExposureRef exposure{};  // body of a DATA frame: a piece of it
    const std::byte* data = nullptr;
    uint64_t bytes = 0;
    bool apart = false;  // the body goes by itself, by zero_copy_
    std::string text{};  // body of every other frame
    uint64_t sent = 0;   // of header and body together
  };
  struct Expected {
    uint64_t tag = 0;
    Span into;  // its region is null once abandoned
    uint64_t bytes = 0;
  };

  void OnEvents(uint32_t events);
  void Receive();
  void ReceiveFrames();  // where no payload comes: many at a time
  std::optional<size_t> Deliver(std::span<const std::byte> received);
  void Send();
  ssize_t SendSome();  // what sendmsg says
  size_t FillSendVector(iovec* vector, bool* more) const;
  void Consumed(size_t bytes);  // moves the send queue on
  void Queue(Outgoing outgoing);
  void SendLater();

  bool HandleHeader();  // false: protocol error
  bool HandleGet(const FrameHeader& header);
  bool HandleReply(const FrameHeader& header);
  void EndBody();
  void SendFailure(uint64_t tag, const Status& status);

  void Fail(Status status);
  void SetWriteInterest(bool wanted);

  const unsigned index_;
  os::EventLoop& loop_;
  os::UniqueFd fd_;
  std::shared_ptr<LaneOwner> owner_;
  ZeroCopy zero_copy_;

  std::deque<Outgoing> outgoing_;
  bool serves_ = false;  // the peer asks, and this end answers with payload
  bool write_interest_ = false;
  bool send_posted_ = false;

  std::deque<Expected> expected_;  // gets asked for, in order of their replies
  HeaderBytes header_{};
  size_t header_have_ = 0;
  FrameHeader frame_;             // whose body is being received
  std::byte* body_at_ = nullptr;  // null: thrown away
  uint64_t body_left_ = 0;
  std::vector<std::byte> text_;   // body of FAIL
  std::vector<std::byte> inbox_;  // what ReceiveFrames received, from its beginning on
  size_t inbox_have_ = 0;
};

}  // namespace onecopy::tcp
