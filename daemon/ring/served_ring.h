// One ring, as its thread serves it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/ring/journal.h"
#include "daemon/ring/long_work.h"
#include "daemon/ring/route.h"
#include "transport/core/base/executor.h"
#include "transport/os/threads/closer.h"
#include "transport/ring/daemon_end.h"

namespace onecopy::ring {

// The ring's thread only.
class ServedRing {
 public:
  // `long_work` outlives it, and so does `pieces`, which has room for kMostPieces.
  ServedRing(DaemonEnd end, os::PassedFd socket, std::shared_ptr<Journal> journal,
             LongWork& long_work, std::vector<CopyPiece>& pieces);
  ~ServedRing();  // nothing may be under way
  ServedRing(const ServedRing&) = delete;
  ServedRing& operator=(const ServedRing&) = delete;

  // `place` is free.
  void Install(uint32_t place, std::shared_ptr<Route> route);
  // Lets go of the withdrawn route's way once nothing of it is under way, then runs `done`: its
  // place is free.
  void Remove(uint32_t place, Task done);

  // Begins what was submitted, up to a bounded number, and completes what has ended; true when
  // there was something of either. `draining`: refuses what was submitted.
  bool Turn(bool draining);
  // Only completes.
  bool Finish();
  // The client must ask to be served from now on; false where it has something already.
  bool Sleep() { return end_.Sleep(); }
  void End(State why) { end_.End(why); }

  uint32_t under_way() const { return under_way_; }
  // Whether the client has written numbers that make no sense: nothing more is taken from it.
  bool broken() const { return broken_; }
  // As if the client had written nonsense.
  void Break() {
    broken_ = true;
    End(State::kBroken);
  }
  int socket() const { return socket_.get(); }

  Clock::time_point last_work{};  // for who serves it

 private:
  static constexpr uint32_t kMaxUnderWay = SmallCopyRoute::kMaxUnderWay;
  static constexpr int kMaxPerTurn = 16;
  // With more under way nothing is taken: what one client asks for in advance is bounded in time.
  static constexpr uint64_t kManyBytes = uint64_t{1} << 30;
  static constexpr size_t kRetired = 256;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Operation {
    Entry entry;
    Route* route = nullptr;  // which stays while something of it is under way
    SmallCopyRoute* way = nullptr;
    uint64_t mark = 0;
    bool summed = false;
    uint64_t copy = 0;      // then: for SmallCopyRoute::SumOf
    LongWork::Start start;  // of a long one
    uint32_t next = kNone;
  };

  // The route that a submission names; one that had its place before, too, as long as it is known:
  // to say why it is none any more. Null for one that never was, or long ago.
  Route* FindRoute(uint64_t word) const;
  // For one more. What ended long is kept for the engine, which may take its time.
  bool HasRoom() const;
  void Serve(const Request& request, Clock::time_point now, bool draining);
  // What is asked for, as it was read once. A list's pieces are in pieces_.
  Entry Read(const Request& request, const Route* route, Clock::time_point now);
  Outcome Check(const Request& request, const Entry& entry, const Route* route,
                bool draining) const;
  Status Begin(const Request& request, const Route& route, SmallCopyRoute& way, uint64_t* copy);
  void Refuse(Entry entry, Route* route, Outcome outcome);
  void MarkNew(uint32_t first);
  // Sets the outcome and the checksum of an operation that has ended. Returns what to tell the
  // client.
  Status Settle(Operation& operation, const Status& failure);
  void Conclude(Operation& operation, const Status& failure, Clock::time_point now);
  void RemoveIdle();

  DaemonEnd end_;
  os::PassedFd socket_;
  const std::shared_ptr<Journal> journal_;
  LongWork& long_work_;
  std::vector<CopyPiece>& pieces_;  // of the list that is looked at
  std::array<std::shared_ptr<Route>, kRoutes> routes_;
  std::array<std::shared_ptr<Route>, kRetired> retired_;  // the last whose places are used again
  size_t next_retired_ = 0;
  std::vector<std::pair<uint32_t, Task>> removals_;
  std::array<Operation, kMaxUnderWay> operations_;
  uint32_t free_ = 0;       // first of those that are not used
  uint32_t first_ = kNone;  // of those under way, oldest first
  uint32_t last_ = kNone;
  uint32_t under_way_ = 0;
  uint64_t bytes_under_way_ = 0;
  bool broken_ = false;
};

}  // namespace onecopy::ring
