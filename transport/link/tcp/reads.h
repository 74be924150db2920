// The reader's half of a connection: what waits until a lane has room for it, what lanes were asked
// for, and how it ends.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/core/base/competition.h"
#include "transport/core/base/fair_queue.h"
#include "transport/core/contracts/link.h"
#include "transport/link/tcp/connection_options.h"
#include "transport/link/tcp/frame.h"
#include "transport/link/tcp/lane.h"
#include "transport/link/tcp/lane_load.h"

namespace onecopy::tcp {

// Lanes are asked for no more than keeps them busy; the rest waits here, where flows have their
// shares and what is cancelled is gone at once. When the `done` of a get runs, nothing here holds
// its memory any more. On the connection's home thread.
class Reads {
 public:
  // Why a get ends that was cancelled.
  static Status Cancelled();

  // The connection's: its options, its lanes by index, null where there is none at the time, and
  // what others read of the data lanes.
  Reads(const ConnectionOptions& options, Executor& home,
        const std::vector<std::shared_ptr<Lane>>& lanes, const std::vector<LaneInfo>& lane_infos);

  // `done` runs once; of a get that is refused not inside this call.
  void Start(const GetRequest& request, Connection::GetDone done);
  void Cancel(ChannelId channel);
  // Asks for what waits, as far as lanes have room: one has come, or what one had waits again.
  void Pump();

  // A lane has come. `loopback`: its wire never leaves the machine. `round_trip`: 0 if not known.
  void OnWire(bool loopback, std::chrono::microseconds round_trip);
  // A data lane has ended, and another one is there. What it was asked for others will be asked
  // for, once Pump is called; what must not be asked for twice ends.
  void OnLaneEnded(unsigned lane, const Status& why);

  // What lanes say of gets: see LaneOwner.
  void OnEnded(uint64_t tag, Status status, bool report_follows);
  void OnAbandoned(uint64_t tag);
  void OnDiscarded(unsigned lane, uint64_t bytes) { MakeRoom(lane, bytes); }
  void OnReport(uint64_t tag, bool copied);

  // The connection ends, for this reason: nothing is asked for any more.
  void Stop(const Status& why) { stopped_ = why; }
  // After that, and once all lanes are closed: ends what is left.
  void EndAll();

  uint64_t ended() const { return ended_; }  // gets; any thread

 private:
  // The steps of a get: where the owner's kernel copied, and where the bytes were left where they
  // lie.
  struct Steps {
    StepList copied;
    StepList left;
  };
  // A get that waits until a lane has room for it.
  struct Waiting {
    ChannelId channel = 0;
    FrameHeader get;  // except for its tag
    Span into;
    Steps steps;
    Connection::GetDone done;

    void End(const Status& why) {
      into.region.reset();
      done(why, nullptr, 0);
    }
  };
  struct Outstanding {
    Waiting asked;  // its `into` only where it may have to be asked for again
    unsigned lane = 0;
    bool named = false;               // that lane was asked for
    bool landed = false;              // and waits for the owner's report
    bool cancelled = false;           // and waits for its lane, not for a report
    std::optional<bool> copied = {};  // the report, where it came first

    void End(Status status, const StepList& steps) {
      asked.into.region.reset();
      asked.done(std::move(status), steps, lane - 1);
    }
  };

  Status Check(const GetRequest& request, const Result<Key>& key) const;
  void Ask(Waiting waiting, unsigned lane, bool named);
  bool HasRoom(unsigned lane) const;
  // The payload lane with room that would bring so many bytes first, counted from 1; 0: there is
  // none.
  unsigned LaneFor(uint64_t bytes);
  void MakeRoom(unsigned lane, uint64_t bytes);
  Steps StepsOf(const std::string& owner_memory, const Region& into);

  const ConnectionOptions& options_;
  Executor& home_;
  const std::vector<std::shared_ptr<Lane>>& lanes_;
  const std::vector<LaneInfo>& lane_infos_;

  std::optional<Status> stopped_;  // why
  std::unordered_map<uint64_t, Outstanding> gets_;
  std::vector<FairQueue<Waiting>> waiting_;  // of any lane first, then of each
  std::deque<Waiting> lost_;                 // with a lane, of any lane; they go first
  LaneLoads asked_;                          // also for gets that were abandoned
  Competition competition_;                  // whose gets come
  uint64_t next_tag_ = 1;
  std::map<std::pair<std::string, std::string>, Steps> steps_;
  bool loopback_ = false;  // the wire never leaves the machine
  bool far_ = false;       // it takes long
  std::atomic<uint64_t> ended_{0};
};

}  // namespace onecopy::tcp
