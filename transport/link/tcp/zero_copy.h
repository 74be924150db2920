// How the owner's end of a lane sends payload: through the kernel's memory, or from where it lies
// (MSG_ZEROCOPY), where that costs the processor less and the kernel really does not copy.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "transport/link/tcp/exports.h"

namespace onecopy::tcp {

// `kMeasured`: where it costs the processor less; `kAlways`: without measuring. Never where the
// kernel copies anyway.
enum class ZeroCopyUse { kOff, kMeasured, kAlways };

// Which of the two ways the next body takes. kMeasured: both in turn until each has carried
// kTrialBytes; then the one that took less processor time for a byte stays.
class SendChoice {
 public:
  static constexpr uint64_t kTrialBytes = uint64_t{16} << 20;

  explicit SendChoice(ZeroCopyUse use)
      : decided_(use != ZeroCopyUse::kMeasured), zero_copy_(use != ZeroCopyUse::kOff) {}

  bool trying() const { return !decided_; }
  // Whether the next body is to be left where it lies.
  bool zero_copy() const { return zero_copy_; }
  // A send, or reports about sends, took so much of the processor. A trial of one way ends when the
  // other has had less.
  void Took(bool zero_copy, uint64_t bytes, std::chrono::nanoseconds cpu);
  // It cannot be done, or the kernel copies anyway.
  void GiveUp();

 private:
  struct Cost {
    uint64_t bytes = 0;
    std::chrono::nanoseconds cpu{};
    double PerByte() const { return static_cast<double>(cpu.count()) / static_cast<double>(bytes); }
  };
  Cost copied_;
  Cost left_;
  bool decided_;
  bool zero_copy_;
};

// Sends the larger bodies of a lane, one after the other. A body goes one way from its beginning to
// its end, so that its reader can be told which one it was. The lane's thread.
class ZeroCopy {
 public:
  // Of a body that is worth it: a shorter one costs more to pin and to hear of, and its get would
  // end later. More than a small transfer has (transport/ring): those are all made in one way.
  static constexpr uint64_t kMinBytes = uint64_t{128} << 10;

  explicit ZeroCopy(ZeroCopyUse use) : use_(use), choice_(use) {}

  // Asks the socket for it, if it is to be used, once; false where the kernel does not know it.
  bool Open(int fd);
  bool open() const { return open_; }
  // Whether there is a reason to send bodies of kMinBytes and more by this.
  bool wanted() const { return open_ && (choice_.trying() || choice_.zero_copy()); }

  // Begins the body of a get: so many bytes of `export`, which is held until nothing reads them
  // any more. True where they are left where they lie; a report about them is then due.
  bool Begin(uint64_t tag, const ExportRef& exported, uint64_t bytes);
  // Whether the body that was begun last has not been sent to its end, nor abandoned.
  bool sending() const { return !bodies_.empty() && bodies_.back().unsent > 0; }
  // What sendmsg says, of the rest of that body.
  ssize_t Send(int fd, const std::byte* data, uint64_t bytes);
  // Nothing more is sent of that body, if there is one, and no report is due.
  void Abandon();

  // Takes what the kernel reports on the socket's error queue, which shows as EPOLLERR.
  void TakeReports(int fd);
  // Sends first to last, numbered from 0 and around 2^32, are done with.
  void Reported(uint32_t first, uint32_t last, bool copied);

  // The reports that have become due: the kernel is through with these bodies. `copied`: it has
  // copied some of the body, at its own or the daemon's choice.
  struct Report {
    uint64_t tag = 0;
    bool copied = false;
  };
  std::vector<Report> TakeFinished() { return std::exchange(finished_, {}); }

  // Sends of which nothing was reported yet.
  size_t under_way() const { return sends_.size(); }
  const SendChoice& choice() const { return choice_; }
  // The socket is closed, and nothing of it is sent any more.
  void Forget();

 private:
  struct Body {
    uint64_t tag = 0;
    ExportRef exported;      // null once the kernel is through with it
    uint64_t unsent = 0;     // bytes
    uint32_t under_way = 0;  // sends
    bool left = false;       // where it lies: what is sent next of it
    bool report_due = false;
    bool copied = false;
  };
  struct Sent {
    uint64_t body = 0;  // its number
    bool reported = false;
  };
  void FinishIfThrough(Body& body);

  const ZeroCopyUse use_;
  bool open_ = false;
  SendChoice choice_;
  std::deque<Body> bodies_;
  uint64_t first_body_ = 0;  // number of the first of bodies_
  std::deque<Sent> sends_;   // that left a body where it lies
  uint32_t first_send_ = 0;  // number of the first of sends_
  std::vector<Report> finished_;
};

}  // namespace onecopy::tcp
