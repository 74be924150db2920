// The client's end of a ring.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "onecopy/result.h"
#include "onecopy/status.h"
#include "transport/core/contracts/small_copy_route.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"
#include "transport/ring/layout.h"

namespace onecopy::ring {

struct Ended {
  uint64_t number = 0;
  uint64_t nanoseconds = 0;  // from the beginning of the copy to its end
  Code code = Code::kOk;
  char reason[kReasonBytes + 1] = {};  // of one that failed
  SmallSum sum{};                      // of one that succeeded, if it was asked for
};

// Submit and Reap by one thread at a time; the rest by any.
class ClientEnd {
 public:
  // `memory` is what the daemon gave, `socket` the far end of its. UNIMPLEMENTED (NOT_SERVED) for a
  // layout of another version.
  static Result<ClientEnd> Open(const os::UniqueFd& memory, os::UniqueFd socket);
  ClientEnd(ClientEnd&&) noexcept;

  // False where the ring is full of what the daemon has not taken, or has ended. Numbers count from
  // 0.
  bool Submit(uint64_t route, uint64_t from, uint64_t to, uint64_t bytes, uint64_t* number,
              bool sum = false);
  // The columns of many pieces: piece i begins at from + sources[i] and to + targets[i]. Both are
  // of one length, from 1 to kMostPieces.
  struct Pieces {
    uint64_t from = 0;
    std::span<const uint64_t> sources;
    uint64_t to = 0;
    std::span<const uint64_t> targets;
  };
  // Likewise of many pieces of `bytes` bytes each. False also where the lists of kLists submissions
  // have not been reaped.
  bool SubmitMany(uint64_t route, const Pieces& pieces, uint64_t bytes, uint64_t* number);
  bool Reap(Ended* ended);
  // Whether Reap would find something.
  bool HasCompleted() const;

  // Sleeps until something has completed, the ring has ended, or `limit` has passed; may return
  // early.
  void Sleep(std::chrono::nanoseconds limit);
  // Of this process: wakes the others that sleep, as the daemon wakes only one.
  void WakeOthers();

  State state() const;
  // Whether the daemon's end of the socket is gone: with it everything of the ring.
  bool DaemonIsGone() const;

 private:
  ClientEnd(os::Mapping mapping, os::UniqueFd socket)
      : mapping_(std::move(mapping)), socket_(std::move(socket)) {}
  Shared& shared() const { return *reinterpret_cast<Shared*>(mapping_.data()); }
  // Whether one more may be submitted.
  bool HasRoom() const;
  // The words from kRoute on.
  void Put(std::initializer_list<uint64_t> words, uint64_t* number);
  void WakeDaemon();

  os::Mapping mapping_;
  os::UniqueFd socket_;
  uint64_t submitted_ = 0;
  uint64_t reaped_ = 0;
  std::array<uint64_t, kLists>
      lists_used_{};      // by the submission of that number, less one; 0: none
  bool no_room_ = false;  // there were so many completions that the daemon may have stopped
};

}  // namespace onecopy::ring
