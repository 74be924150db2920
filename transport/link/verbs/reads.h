// The reader's half of a connection: gets, and what may not be read any more.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "transport/core/contracts/link.h"
#include "transport/link/verbs/control_channel.h"
#include "transport/link/verbs/lanes.h"
#include "transport/link/verbs/memory_region.h"
#include "transport/link/verbs/options.h"

namespace onecopy::verbs {

// Home thread. Each get goes to the lane that would be through with it first, and to another one if
// that lane fails.
class Reads {
 public:
  Reads(const Options& options, std::string peer, const Home& home, const MemoryTable& memory,
        const Lanes& lanes, ControlChannel& control)
      : options_(options),
        peer_(std::move(peer)),
        home_(home),
        memory_(memory),
        lanes_(lanes),
        control_(control) {}

  // `done` runs once, never inside this call.
  void Start(const GetRequest& request, Connection::GetDone done);
  void Cancel(ChannelId channel);

  // All of it has landed, or what has not is refused.
  void OnDone(const GetRef& get) { End(get, get->refused); }
  // `unfinished`: of a lane that has failed, by the fault of `culprit` where there is one.
  void OnLaneFailed(const std::vector<GetRef>& unfinished, const GetRef& culprit,
                    const Status& why);

  // The owner takes back the right to read: what is with a device by now may still end, and the
  // owner is told when it has.
  void OnRevoke(uint64_t exported);
  // Nothing reads it any more, nor may anything.
  void Forbid(uint64_t exported);

  // The connection ends, for this reason: nothing is begun any more, nor tried on another lane.
  void Stop(const Status& why) { stopped_ = why; }
  uint64_t ended() const { return ended_; }  // any thread
  // After the lanes are closed: ends what is left.
  void EndAll();

 private:
  Status Check(const GetRequest& request, const Result<Key>& key) const;
  // The best lane for it, or why there is none.
  Status Assign(const GetRef& get);
  void End(const GetRef& get, const Status& status);
  // Gets of which nothing is with a device yet, and the rest of the others.
  void EndQueued(const std::function<bool(const Get&)>& which, const Status& why);
  bool IsForbidden(uint64_t exported) const;
  StepList StepsOf(const std::string& owner_memory, const Region& into, unsigned lane);

  const Options& options_;
  const std::string peer_;
  const Home& home_;
  const MemoryTable& memory_;
  const Lanes& lanes_;
  ControlChannel& control_;

  Status stopped_;  // why; OK while it is not
  std::set<GetRef> gets_;
  std::atomic<uint64_t> ended_{0};
  std::map<uint64_t, size_t> reading_;  // gets under way, by export
  // Exports that were taken back: where each run of them begins, and ends.
  std::map<uint64_t, uint64_t> forbidden_{{0, 1}};
  std::set<uint64_t> to_acknowledge_;  // withdrawn, and still being read
  std::map<std::tuple<std::string, std::string, unsigned>, StepList> steps_;
};

}  // namespace onecopy::verbs
