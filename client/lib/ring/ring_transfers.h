// Transfers that go by the session's ring instead of gRPC.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/attach/attach.h"
#include "client/lib/ring/ring_move.h"
#include "client/lib/ring/routes.h"
#include "client/lib/ring/silence.h"
#include "onecopy/transfer.h"
#include "transport/core/base/mutex.h"
#include "transport/ring/client_end.h"

namespace onecopy::client {

// Thread-safe. The ring is made when it is first of use. Where nothing is returned, gRPC is the
// way: for what rings do not carry, and for what the daemon has refused before a byte moved, so
// that the caller hears the daemon's own words, or that it works after all.
class RingTransfers {
 public:
  // `attach` must outlive this, and `silence` all calls.
  RingTransfers(AttachSocket& attach, Silence& silence, bool allowed);
  ~RingTransfers();
  RingTransfers(const RingTransfers&) = delete;
  RingTransfers& operator=(const RingTransfers&) = delete;

  // Moves the bytes and waits for it.
  std::optional<Result<TransferInfo>> Run(const TransferRequest& request);
  // Begins to; Await tells the end.
  std::optional<Result<TransferInfo>> Start(const TransferRequest& request);
  // Nothing for a transfer that is none of this ring's, ended too long ago, or failed.
  std::optional<Result<TransferInfo>> Await(const TransferId& id);

  // For a thread that waits for many: a submission by its number, which TakeEnd or Forget is called
  // for in the end.
  struct Attempt {
    std::optional<uint64_t> number;  // it is under way
    bool worth_asking = false;       // else: Begin may find a way
  };
  // Takes a way that is known, and never blocks.
  Attempt TryBegin(const TransferRequest& request);
  // Asks the daemon for a way first, where none is known.
  std::optional<uint64_t> Begin(const TransferRequest& request);
  // One that Start began.
  std::optional<uint64_t> Keep(const TransferId& id);
  void Forget(uint64_t number);
  // kGone: its end is not awaited any more; Gone says why.
  enum class Progress { kUnderWay, kEnded, kGone };
  Progress Look(uint64_t number);
  // Waits a moment for any end, at most `longest`: as ChoosePause says, for this submission.
  void Idle(uint64_t number, std::chrono::nanoseconds waited, std::chrono::nanoseconds longest);
  // Notices a daemon that has gone or is silent, as Idle does: what has not ended is kGone then.
  void LookForDaemon();
  // What is returned of a submission that has ended; nothing where gRPC must say more.
  std::optional<TransferInfo> TakeEnd(uint64_t number);
  // What becomes of one that has not ended: UNAVAILABLE (SESSION_LOST), or, of a daemon that is
  // silent, (DAEMON_UNREACHABLE); DEADLINE_EXCEEDED (DEADLINE) once it is later than CallLimit::For
  // gives its deadline.
  Status Gone(uint64_t number) const;

  // Returns when the transfer has ended, if it is one of this ring's.
  void WaitFor(const TransferId& id);
  // Returns when all of this ring's that were begun before have ended: the daemon can then tell
  // them.
  void WaitForAll();

 private:
  using Clock = std::chrono::steady_clock;

  // One submission, until another takes its place.
  struct Slot {
    std::atomic<uint64_t> ended_number{0};  // one more than the submission's, once that has ended
    std::atomic<uint64_t> number{0};
    std::atomic<Clock::rep> until{0};  // when its deadline has passed; 0: it has none
    bool waited_for = false;           // by Run: it must not lose its place
    bool sum = false;                  // its checksum was asked for
    RouteRef route;
    RingMove move;
    WallTime submitted;
    Clock::time_point begun;  // when that was; the clock on the wall may be set meanwhile
    Clock::time_point seen;   // its end
    ring::Ended ended;
  };
  // More than can be submitted and not have ended.
  static constexpr uint64_t kSlots = 2048;
  static_assert(kSlots >= ring::kSubmissions + ring::kCompletions);

  struct Ring {
    Ring(ring::ClientEnd end, std::string prefix, std::string owner, std::chrono::nanoseconds spin)
        : end(std::move(end)), prefix(std::move(prefix)), owner(std::move(owner)), spin(spin) {}
    ring::ClientEnd end;
    const std::string prefix;
    const std::string owner;
    const std::chrono::nanoseconds spin;
    std::vector<Slot> slots{kSlots};
  };

  bool Fits(const TransferRequest& request) const;
  // With no name for this session's own node.
  BufferPair PairOf(const TransferRequest& request) const;
  // The route for a request that fits; null where there is none (yet).
  RouteRef RouteFor(const TransferRequest& request);
  RouteRef OpenRoute(const TransferRequest& request);
  Status OpenRing();
  // Whether there is one, made where it can be.
  bool EnsureRing();
  std::optional<uint64_t> Submit(const TransferRequest& request, const RouteRef& route,
                                 bool waited_for);
  // Until the submission has ended. As Gone once the daemon has gone, or is silent.
  Status Wait(uint64_t number);
  void ReapAll() ONECOPY_REQUIRES(mutex_);
  std::optional<uint64_t> NumberOf(const TransferId& id) const;
  TransferInfo Describe(const Slot& slot) const ONECOPY_REQUIRES(mutex_);
  bool HasEnded(uint64_t number) const;
  bool IsLate(uint64_t number) const;
  // Until its expected end; nothing where none is expected.
  std::optional<std::chrono::nanoseconds> ExpectedLeft(uint64_t number);

  AttachSocket& attach_;
  Silence& silence_;
  const bool allowed_;
  // Set once; never taken away, so that who waits may use it without the lock.
  std::atomic<Ring*> ring_{nullptr};
  std::atomic<bool> usable_;
  std::atomic<bool> gone_{false};  // the ring's other end
  std::atomic<uint64_t> next_{0};  // submission
  Mutex mutex_;
  std::unique_ptr<Ring> owned_ ONECOPY_GUARDED_BY(mutex_);  // like the ends and slots of it
  Routes routes_ ONECOPY_GUARDED_BY(mutex_);
  Mutex opening_;  // one thread at a time asks the daemon
};

}  // namespace onecopy::client
