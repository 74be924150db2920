// A connection made of queue pairs.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/core/channel_listeners.h"
#include "transport/core/link.h"
#include "transport/link/verbs/control_channel.h"
#include "transport/link/verbs/exposures.h"
#include "transport/link/verbs/lane.h"
#include "transport/link/verbs/memory_region.h"
#include "transport/link/verbs/offer.h"
#include "transport/link/verbs/options.h"
#include "transport/link/verbs/progress.h"

namespace onecopy::verbs {

// Everything lives on one progress thread, its home. A lane that fails is given up: its reads and
// frames move to the others, and the connection ends with its last lane.
class VerbsConnection final : public Connection,
                              public LaneOwner,
                              public std::enable_shared_from_this<VerbsConnection> {
 public:
  VerbsConnection(const Options& options, std::string peer, Progress& progress,
                  std::vector<std::shared_ptr<Device>> devices, std::shared_ptr<MemoryTable> memory,
                  SlowCalls slow);

  // Home thread, reader: a lane per active port and queue pair, and then what the owner answered.
  // `done` runs once every lane carries or has failed; it fails when none carries.
  Result<Offer> MakeOffer();
  void Establish(const Answer& answer, UniqueFunction<void(Status)> done);
  // Home thread, owner: its ends of the offered lanes. Closes unless the reader speaks within a few
  // seconds.
  Result<Answer> MakeAnswer(const Offer& offer);
  // Any thread: a port, or all of a device's (0), is gone.
  void OnPortDown(const Device* device, uint8_t port, const Status& why);

  Executor& executor() override { return home_; }
  const std::vector<LaneInfo>& lanes() const override { return lane_infos_; }
  LinkAccess Access(const RemoteKey& key, const Region& into) const override;
  unsigned depth() const override;
  uint64_t chunk_bytes() const override { return options_.read_bytes; }
  void Get(const GetRequest& request, GetDone done) override;
  void CancelGets(ChannelId channel) override;
  void Expose(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) override;
  void Withdraw(const RemoteKey& key, Task done) override;
  void Lend(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) override;
  void EndLoan(const RemoteKey& key, Task done) override;
  void LetGo(const RemoteKey& key) override;
  void Listen(ChannelId channel, MessageHandler handler) override;
  void Ignore(ChannelId channel) override;
  Status Send(ChannelId channel, std::span<const std::byte> message) override;
  void OnClosed(UniqueFunction<void(Status)> closed) override;
  void Close(Status why) override;
  bool closed() const override { return closed_; }
  void Evidence(UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done) override;

  void OnGetDone(const GetRef& get) override;
  void OnFrame(unsigned lane, std::span<const std::byte> bytes) override;
  void OnFramesArrived(unsigned lane, uint64_t number) override;
  void OnLaneFailed(unsigned lane, const Status& why, const GetRef& culprit) override;

 private:
  static constexpr uint64_t kHelloNumber = UINT64_MAX;  // of no frame that is numbered

  struct LaneRepair {
    os::Clock::time_point next;
    os::Clock::duration pause{};
    uint64_t first_exposure = 0;  // whose key is good for the present lane
  };
  struct Withdrawal {
    std::vector<Task> done;
    os::EventLoop::TimerId timer = 0;
  };

  void InHome(Task task);  // at once when already there
  // In connection_lanes.cc:
  std::unique_ptr<Lane> MakeLane(unsigned index, const std::shared_ptr<Device>& device,
                                 size_t port);
  std::unique_ptr<Lane> MatchLane(unsigned index, const QueuePairAddress& theirs);
  Result<std::unique_ptr<Lane>> AnswerLane(unsigned index, const QueuePairAddress& theirs);
  void LimitConnecting();
  void OnLaneUp(unsigned index);
  void CountLive();
  void Repair(unsigned index);
  void OnRepair(const Frame& frame);
  void OnRepaired(const Frame& frame);
  void BeginTicking();
  void Tick();

  void StartGet(const GetRequest& request, GetDone done);
  Status CheckGet(const GetRequest& request, const Result<Key>& key) const;
  // The best lane for it, or why there is none.
  Status Assign(const GetRef& get);
  void EndGet(const GetRef& get, const Status& status);
  StepList StepsOf(const std::string& owner_memory, const Region& into, const Lane& lane);
  void ResolveEstablishing();

  void Deliver(const Frame& frame);
  bool IsWithdrawn(uint64_t exposure) const;
  // Gets of which nothing is with a device yet, and the rest of the others.
  void EndQueued(const std::function<bool(const verbs::Get&)>& which, const Status& why);
  void NoteWithdrawn(uint64_t exposure);
  void OnWithdraw(uint64_t exposure);
  void OnWithdrawn(uint64_t exposure);
  void Shut(Status why, bool tell_peer);
  void Finish();

  const Options& options_;
  const std::string peer_;
  Progress& progress_;
  os::EventLoop& home_;
  const std::vector<std::shared_ptr<Device>> devices_;
  const std::shared_ptr<MemoryTable> memory_;
  std::vector<LaneInfo> lane_infos_;  // complete before the connection is handed out
  std::atomic<bool> closed_{false};   // refuses early, on any thread
  std::atomic<unsigned> live_lanes_{0};

  ChannelListeners listeners_;

  // Home thread only.
  bool reader_ = false;
  Exposures::LaneList lanes_;
  std::map<unsigned, LaneRepair> repairs_;  // by lane
  Exposures exposures_;                     // after lanes_
  ControlChannel control_;                  // likewise
  UniqueFunction<void(Status)> establishing_;
  Status last_failure_;
  std::set<GetRef> gets_;
  std::map<uint64_t, size_t> reading_;     // gets under way, by exposure
  std::set<uint64_t> withdrawn_;           // exposures that may not be read any more, and all
  uint64_t withdrawn_below_ = 1;           // below this one
  std::set<uint64_t> to_acknowledge_;      // withdrawn, and still being read
  std::map<uint64_t, Withdrawal> ending_;  // owner: exposures that the peer has been told about
  std::map<std::tuple<std::string, std::string, unsigned>, StepList> steps_;

  bool shut_ = false;
  bool finished_ = false;
  Status why_;
  uint64_t bye_number_ = 0;
  os::EventLoop::TimerId tick_timer_ = 0;
  std::vector<UniqueFunction<void(Status)>> closed_callbacks_;
};

}  // namespace onecopy::verbs
