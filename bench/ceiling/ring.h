// One io_uring, as the event engines that are compared use it.
#pragma once

#include <liburing.h>

#include <memory>
#include <vector>

#include "transport/core/result.h"

namespace onecopy::bench {

// How a ring is used.
struct RingWay {
  // With IORING_SETUP_SINGLE_ISSUER and IORING_SETUP_DEFER_TASKRUN where the kernel has them:
  // completions are worked off in the call that waits for them.
  bool deferred = true;
  // Operations of one lane and direction that are under way, each begun when the one before it has
  // moved all of its bytes: only so do the bytes of a stream keep their order.
  unsigned chain = 4;
  // Completions that a turn waits for, where so many operations can end without another turn.
  unsigned batch = 1;
  // kFixed: READ_FIXED and WRITE_FIXED on registered buffers. kZeroCopy: SEND_ZC from registered
  // buffers; over loopback the kernel copies all the same.
  enum class Buffers { kPlain, kFixed, kZeroCopy } buffers = Buffers::kPlain;
};

struct RingSetting {
  unsigned entries = 8;    // that are prepared before they are submitted, at most
  bool deferred = true;    // see RingWay
  bool zero_copy = false;  // SEND_ZC is needed
  std::vector<int> files = {};
  std::vector<iovec> buffers = {};
};

// Made on any thread; used by the one that enables it alone; destroyed on any thread when that one
// has ended or does not use it any more.
class Ring {
 public:
  // FAILED_PRECONDITION where the kernel refuses io_uring, or has no SEND_ZC; RESOURCE_EXHAUSTED
  // where it may not lock that much memory.
  static Result<std::unique_ptr<Ring>> Create(const RingSetting& setting);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Whether completions are deferred.
  bool deferred() const { return (flags_ & IORING_SETUP_DEFER_TASKRUN) != 0; }
  unsigned turns() const { return turns_; }

  Status Enable();
  // An entry to prepare, to be followed by Finish. Never more than `entries` between turns.
  io_uring_sqe* Prepare() { return io_uring_get_sqe(&ring_); }
  // `linked`: what is prepared next begins when this one has moved all of its bytes.
  static void Finish(io_uring_sqe* prepared, uint64_t tag, bool linked);
  // Submits what is prepared and waits for so many completions. DEADLINE_EXCEEDED where they do not
  // come.
  Status SubmitAndWait(unsigned completions);
  // Hands each completion over. Entries may be prepared meanwhile.
  template <typename Each>
  void TakeCompletions(const Each& each) {
    unsigned head = 0;
    unsigned count = 0;
    io_uring_cqe* completion = nullptr;
    io_uring_for_each_cqe(&ring_, head, completion) {
      each(*completion);
      ++count;
    }
    io_uring_cq_advance(&ring_, count);
  }

 private:
  explicit Ring(unsigned flags) : flags_(flags) {}
  int SetUp(const RingSetting& setting);
  Status Register(const RingSetting& setting);
  Status CheckZeroCopy();

  const unsigned flags_;
  bool made_ = false;
  unsigned turns_ = 0;
  io_uring ring_ = {};
};

}  // namespace onecopy::bench
