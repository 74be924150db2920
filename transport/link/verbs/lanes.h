// The lanes of a connection: how they are offered and answered, come up, fail and are mended.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/toolkit/connection_home.h"
#include "transport/link/verbs/control_channel.h"
#include "transport/link/verbs/lane.h"
#include "transport/link/verbs/offer.h"
#include "transport/link/verbs/options.h"
#include "transport/link/verbs/pairings.h"
#include "transport/link/verbs/progress.h"

namespace onecopy::verbs {

using Home = ConnectionHome<os::EventLoop>;

// A lane's order number is the same at both ends, for as long as the connection lives; a lane that
// has failed keeps its place, and is mended there by the reader. Home thread, except for live() and
// infos().
class Lanes {
 public:
  // `control` carries what the ends say about lanes; it and `owner` are not used before the first
  // lane is made.
  Lanes(const Options& options, std::string peer, const Home& home, Progress& progress,
        std::vector<std::shared_ptr<Device>> devices, std::shared_ptr<Pairings> pairings,
        ControlChannel& control, LaneOwner& owner);

  const LaneList& list() const { return list_; }
  // Reader: complete before Establish says that the connection is there. Any thread, from then on.
  const std::vector<LaneInfo>& infos() const { return infos_; }
  // Lanes that carry. Any thread.
  unsigned live() const { return live_; }
  bool any_left() const;
  const Status& last_failure() const { return last_failure_; }
  // Keys of exports before this one are of a former lane in this place.
  uint64_t first_export(unsigned index) const;

  // Reader: a lane per active port and queue pair, and then what the owner answered. `done` runs
  // once every lane carries or has failed; it fails when none carries.
  Result<Offer> MakeOffer();
  void Establish(const Answer& answer, UniqueFunction<void(Status)> done);
  // Owner: its ends of the offered lanes. Those that the reader does not speak on within a few
  // seconds fail.
  Result<Answer> MakeAnswer(const Offer& offer);

  // The far end's HELLO has come, or ours has arrived.
  void OnUp(unsigned index);
  // A port, or all of a device's (0), is gone: its lanes fail, which their owner is told.
  void OnPortDown(const Device* device, uint8_t port, const Status& why);
  // Ports of a device are not as they were: lanes by an address that its port has no more fail.
  void OnPortsChanged(const Device* device);
  // A lane has failed: ends it, and says which gets were not completed. Their owner finds other
  // lanes for them, and then calls Settle.
  std::vector<GetRef> GiveUp(unsigned index, const Status& why);
  // Tells who waits for Establish, if it has an outcome by now.
  void Settle();

  // Owner: the reader has a new queue pair for a lane; `next_export` is the first one that it may
  // be read by. Fails for what makes no sense.
  Status OnRepair(const Frame& frame, uint64_t next_export);
  // Reader: the owner's end of it. Likewise.
  Status OnRepaired(const Frame& frame);

  // The connection ends: no lane is asked for its life any more, nor mended.
  void Stop() { stopped_ = true; }
  // Afterwards no device reads or writes for it.
  void Close();

 private:
  struct Repair {
    os::Clock::time_point next;
    os::Clock::duration pause{};
    uint64_t first_export = 0;  // whose key is good for the present lane
  };

  std::unique_ptr<Lane> Make(unsigned index, const std::shared_ptr<Device>& device, size_t port);
  std::unique_ptr<Lane> Match(unsigned index, const QueuePairAddress& theirs);
  // By this lane of ours; null: there is none.
  Result<std::unique_ptr<Lane>> MakeAnswerTo(std::unique_ptr<Lane> lane,
                                             const QueuePairAddress& theirs);
  void SendHello(Lane& lane);
  void LimitConnecting();
  void CountLive();
  void BeginTicking();
  void Tick();
  void Mend(unsigned index);

  const Options& options_;
  const std::string peer_;
  const Home& home_;
  Progress& progress_;
  const std::vector<std::shared_ptr<Device>> devices_;
  const std::shared_ptr<Pairings> pairings_;
  ControlChannel& control_;
  LaneOwner& owner_;

  LaneList list_;
  std::vector<LaneInfo> infos_;
  std::atomic<unsigned> live_{0};
  bool reader_ = false;
  bool stopped_ = false;
  std::map<unsigned, Repair> repairs_;  // by lane
  UniqueFunction<void(Status)> establishing_;
  Status last_failure_;
};

}  // namespace onecopy::verbs
