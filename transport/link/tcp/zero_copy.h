// How the owner's end of a lane sends payload: through the kernel's memory, or from where it lies
// (MSG_ZEROCOPY), where that costs the processor less and the kernel really does not copy.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "transport/link/tcp/exposures.h"

namespace onecopy::tcp {

// `kMeasured`: where it costs the processor less; `kAlways`: without measuring. Never where the
// kernel copies all the same.
enum class ZeroCopyUse { kOff, kMeasured, kAlways };

// Which of the two ways the next send takes. kMeasured: both in turn until each has carried
// kTrialBytes; then the one that took less processor time for a byte stays.
class SendChoice {
 public:
  static constexpr uint64_t kTrialBytes = uint64_t{16} << 20;

  explicit SendChoice(ZeroCopyUse use)
      : decided_(use != ZeroCopyUse::kMeasured), zero_copy_(use != ZeroCopyUse::kOff) {}

  bool trying() const { return !decided_; }
  // Whether the next send is to leave the bytes where they lie.
  bool zero_copy() const { return zero_copy_; }
  // A send, or reports about sends, took so much of the processor. A trial of one way ends when the
  // other has had less.
  void Took(bool zero_copy, uint64_t bytes, std::chrono::nanoseconds cpu);
  // It cannot be done, or the kernel copies all the same.
  void GiveUp();

 private:
  struct Way {
    uint64_t bytes = 0;
    std::chrono::nanoseconds cpu{};
    double PerByte() const { return static_cast<double>(cpu.count()) / static_cast<double>(bytes); }
  };
  Way copied_;
  Way left_;
  bool decided_;
  bool zero_copy_;
};

// The lane's thread.
class ZeroCopy {
 public:
  // Of a body that is worth it: to pin the pages of a shorter one and to hear of it costs more.
  static constexpr uint64_t kLeastBytes = uint64_t{16} << 10;

  explicit ZeroCopy(ZeroCopyUse use) : use_(use), choice_(use) {}

  // Asks the socket for it, if it is to be used, once; false where the kernel does not know it.
  bool Open(int fd);
  bool open() const { return open_; }

  // What sendmsg says, of a part of a body of `exposure`. Bytes that the kernel copied are counted
  // there, now or when it reports so; until it has reported, it may read the others.
  ssize_t Send(int fd, const ExposureRef& exposure, const std::byte* data, uint64_t bytes);

  // Takes what the kernel reports on the socket's error queue, which shows as EPOLLERR.
  void TakeReports(int fd);
  // Sends first to last, numbered from 0 and around 2^32, are done with.
  void Reported(uint32_t first, uint32_t last, bool copied);

  // Sends of which nothing was reported yet.
  size_t under_way() const { return under_way_.size(); }
  const SendChoice& choice() const { return choice_; }
  // The socket is closed, and nothing of it is sent any more.
  void Forget() { under_way_.clear(); }

 private:
  struct Sent {
    ExposureRef exposure;  // null: reported
    uint64_t bytes = 0;
  };
  const ZeroCopyUse use_;
  bool open_ = false;
  SendChoice choice_;
  std::deque<Sent> under_way_;
  uint32_t first_ = 0;  // number of the first of under_way_
};

}  // namespace onecopy::tcp
