// A connection over UCX: gets by its one-sided reads, everything else by its active messages.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/core/channel_listeners.h"
#include "transport/core/fair_queue.h"
#include "transport/core/link.h"
#include "transport/link/ucx/route.h"
#include "transport/link/ucx/worker.h"

namespace onecopy::ucx {

struct ConnectionOptions {
  std::string node;  // this one, and the other, for steps
  std::string peer;
  bool reader = false;
  EndId near = 0;
  EndId far = 0;
  bool same_machine = false;
  std::string device;  // for LaneInfo
  std::string peer_address;
  uint64_t chunk_bytes = 0;
  unsigned gets = 1;  // under way at once
};

// State lives on the worker's thread.
class UcxConnection final : public Connection,
                            public End,
                            public std::enable_shared_from_this<UcxConnection> {
 public:
  using Ready = UniqueFunction<void(Status)>;

  UcxConnection(ConnectionOptions options, Worker& worker);
  ~UcxConnection() override;

  // On the worker's thread, once: joins the far end over `endpoint`. `ready` runs when it has
  // answered, or has not in time.
  void Start(EndpointRef endpoint, Ready ready);

  Executor& executor() override { return loop_; }
  const std::vector<LaneInfo>& lanes() const override { return lanes_; }
  LinkAccess Access(const RemoteKey&, const Region&) const override {
    return {.registration = "ucx-writable", .key = "lease"};
  }
  unsigned depth() const override { return options_.gets; }
  uint64_t chunk_bytes() const override { return options_.chunk_bytes; }

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

  void Arrived(Message message) override;
  void EndpointFailed(const Endpoint& endpoint) override;

 private:
  struct Readable;   // reader: what may be got
  struct Exposure;   // owner: what it may get
  struct Operation;  // reader: one get

  void InHome(Task task);  // at once when already there

  void StartGet(const GetRequest& request, GetDone done);
  void StartQueued();
  void Post(std::shared_ptr<Operation> operation);
  void GetEnded(const std::shared_ptr<Operation>& operation, Status status,
                const std::string& info);
  void CompleteQueued(const std::function<bool(const Operation&)>& which, const Status& status);
  const Route& RouteOf(const std::string& info);
  StepList StepsFor(const Route& route, const std::string& from, const std::string& to);

  void StartExpose(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done);
  void StartWithdraw(uint64_t key, Task done);
  void TakeExposing(const Message& message);
  void TakeExposed(const Message& message);
  void TakeWithdraw(uint64_t key);
  void TakeWithdrawn(uint64_t key);
  void TellWithdrawn(uint64_t key);
  // Reader: lets the owner hear that it is there, for as long as it has not let go of everything.
  void SayWaiting();
  // Owner: what was withdrawn is not waited for without end, nor for one that is silent.
  void LimitWithdraw(uint64_t key, os::Clock::time_point end);

  void Tell(MessageKind kind, uint64_t key = 0, std::string text = {});
  void Handle(const Message& message);
  void BecomeReady();
  void KeepWatch();

  void Shut(Status why, bool tell);
  void GiveUpWaiting();
  void FinishIfIdle();
  void Finish();

  const ConnectionOptions options_;
  Worker& worker_;
  os::EventLoop& loop_;
  std::vector<LaneInfo> lanes_;
  std::atomic<bool> closed_{false};  // refuses messages early, on any thread

  ChannelListeners listeners_;

  // The worker's thread only.
  EndpointRef endpoint_;
  Ready ready_callback_;
  bool ready_ = false;           // the far end listens
  std::vector<Message> unsent_;  // until it does
  uint64_t next_sent_ = 0;       // sequence of messages
  uint64_t next_arriving_ = 0;
  std::map<uint64_t, Message> early_;
  os::Clock::time_point heard_{};
  os::EventLoop::TimerId watch_timer_ = 0;
  os::EventLoop::TimerId limit_timer_ = 0;
  os::EventLoop::TimerId waiting_timer_ = 0;
  size_t withdrawn_ = 0;  // readables that are not let go yet

  std::unordered_map<uint64_t, std::shared_ptr<Readable>> readables_;
  std::unordered_map<uint64_t, Exposure> exposures_;
  FairQueue<std::shared_ptr<Operation>> queued_{uint64_t{1} << 20};  // by channel
  std::set<std::shared_ptr<Operation>> posted_;
  std::map<std::string, Route> routes_;  // by UCX's words
  std::map<std::array<std::string, 3>, StepList> steps_;
  std::map<std::string, uint64_t> got_bytes_;               // by route
  std::set<std::pair<std::string, std::string>> emulated_;  // memories: UCX has no other way

  bool shut_ = false;
  bool peer_through_ = false;  // the far end has nothing under way any more, or is gone
  Status why_;
  bool done_ = false;
  std::vector<UniqueFunction<void(Status)>> closed_callbacks_;
};

}  // namespace onecopy::ucx
