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
#include <utility>
#include <vector>

#include "onecopy/result.h"
#include "transport/core/contracts/region.h"
#include "transport/link/tcp/exports.h"
#include "transport/link/tcp/frame.h"
#include "transport/link/tcp/lane_socket.h"
#include "transport/link/tcp/zero_copy.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::tcp {

class Lane;

// What a lane tells its connection; calls come on the lane's thread.
class LaneOwner {
 public:
  virtual ~LaneOwner() = default;
  // A get has ended; nothing writes to its memory any more. `report_follows`: whether its owner's
  // kernel copied the bytes comes, or came, in a report.
  virtual void GetEnded(unsigned lane, uint64_t tag, Status status, bool report_follows) = 0;
  // Likewise because the lane has ended before it.
  virtual void GetLost(unsigned lane, uint64_t tag, Status why) {
    GetEnded(lane, tag, std::move(why), false);
  }
  // Likewise of one that was abandoned; its bytes are still to come on this lane, until Discarded
  // says that so many have.
  virtual void GetAbandoned(unsigned lane, uint64_t tag) = 0;
  virtual void Discarded(unsigned lane, uint64_t bytes) = 0;
  virtual void MessageArrived(uint64_t channel, std::span<const std::byte> message) = 0;
  // Owner: the kernel is through with the body of a get whose END promises a report; `copied`:
  // some of it was copied after all.
  virtual void BodySent(uint64_t tag, bool copied) = 0;
  // Reader, on lane 0: so the owner says.
  virtual void ReportArrived(uint64_t tag, bool copied) = 0;
  // The socket is done for. The lane has closed itself, and its gets are lost.
  virtual void LaneFailed(std::shared_ptr<Lane> lane, Status status) = 0;
  virtual const Exports& exports() const = 0;
};

// Lives on its loop's thread after construction; all but loop() and index() is called there. A
// closed lane ignores what it is asked; its connection, which it has told, ends what was asked too
// late.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  Lane(unsigned index, os::EventLoop& loop, LaneSocket socket, ZeroCopyUse zero_copy);

  os::EventLoop& loop() const { return loop_; }
  unsigned index() const { return index_; }

  // Begins to send and receive; `owner` is kept until the lane is closed. The accepting side sends
  // WELCOME first: the peer then knows that the lane is ready for whatever it sends.
  void Start(std::shared_ptr<LaneOwner> owner, bool send_welcome);

  // Reader: asks for bytes by a header of GET; ends with LaneOwner::GetEnded.
  void Get(const FrameHeader& get, Span into);
  // Reader: releases the memory of these gets at once; bytes that still come for them are dropped.
  void Abandon(const std::vector<uint64_t>& tags);
  // Owner: answers what is still to be sent of that export with `why`, and releases it at once,
  // except what the kernel still reads in place (ZeroCopy).
  void Void(uint64_t key, const Status& why);
  // Lane 0 only. Messages, questions and answers of one turn of the loop leave together at its end.
  void SendMessage(uint64_t channel, std::string message);
  void SendReport(uint64_t tag, bool copied);
  // Loses the outstanding gets with `why`.
  void Close(const Status& why);

  // Of payload and headers. Also after it has closed; then on any thread that knows that it has.
  LaneSocket::Counters ReadCounters() const {
    return owner_ != nullptr ? socket_.ReadCounters() : at_end_;
  }

 private:
  struct Outgoing {
    HeaderBytes header{};
    uint64_t tag = 0;                 // of a DATA frame
    uint64_t key = 0;                 // likewise, and
    ExportRef exported{};             // a piece of that is its body
    const std::byte* data = nullptr;  // the piece; null: void, zeroes are sent instead
    uint64_t bytes = 0;               // its length
    bool apart = false;               // it goes by itself, by zero_copy_
    bool message = false;             // counted in message_bytes_
    std::string text{};               // body of every other frame
    uint64_t sent = 0;                // of header and body together

    uint64_t body() const { return bytes + text.size(); }
  };
  struct Expected {
    uint64_t tag = 0;
    Span into;  // its region is null once abandoned
    uint64_t bytes = 0;
    Status failure = {};  // of this end; the rest of the body is thrown away
  };

  void OnEvents(uint32_t events);
  void Receive();
  void ReceiveRest();
  // The body that is coming has no place to go any more. False where that is not a payload.
  bool DiscardBody(const Status& why);
  bool TakeHeaders();    // that are in head_; false: protocol error
  void ReceiveFrames();  // where no payload comes: many at a time
  std::optional<size_t> Deliver(std::span<const std::byte> received);
  void Send();
  ssize_t SendSome();  // how many bytes, or -1 and errno
  size_t FillSendVector(iovec* vector, bool* more) const;
  // The first frame's body cannot be sent any more: zeroes go in its place, and `why` after it.
  // False where that is not a payload.
  bool VoidFirst(const Status& why);
  void PassReports();           // of bodies that the kernel is through with
  void Consumed(size_t bytes);  // moves the send queue on
  void Queue(Outgoing outgoing);
  void SendLater();

  bool HandleGet(const FrameHeader& header);  // false: protocol error
  bool HandleReply(const FrameHeader& header);
  void EndBody();
  void EndFirst(Status status, bool report_follows = false);    // of the gets that are expected
  static Outgoing Failure(uint64_t tag, const Status& status);  // a FAIL frame

  void Fail(Status status);
  void SetWriteInterest(bool wanted);

  const unsigned index_;
  os::EventLoop& loop_;
  LaneSocket socket_;
  LaneSocket::Counters at_end_;
  std::shared_ptr<LaneOwner> owner_;
  ZeroCopy zero_copy_;

  std::deque<Outgoing> outgoing_;
  uint64_t message_bytes_ = 0;  // of the messages among them
  bool serves_ = false;         // the peer asks, and this end answers with payload
  bool write_interest_ = false;
  bool send_posted_ = false;
  bool receive_posted_ = false;

  std::deque<Expected> expected_;                   // gets asked for, in order of their replies
  std::array<std::byte, 2 * kHeaderBytes> head_{};  // what has come after the last body
  size_t head_have_ = 0;
  FrameHeader frame_;             // whose body is being received
  bool in_data_ = false;          // DATA has come, and its END not yet
  std::byte* body_at_ = nullptr;  // null: thrown away
  uint64_t body_left_ = 0;
  std::vector<std::byte> text_;   // body of FAIL
  std::vector<std::byte> inbox_;  // what ReceiveFrames received, from its beginning on
  size_t inbox_have_ = 0;
};

}  // namespace onecopy::tcp
