// A connection over UCX: gets by its one-sided reads, everything else by its active messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/core/toolkit/link_connection.h"
#include "transport/link/ucx/dialogue.h"
#include "transport/link/ucx/exports.h"
#include "transport/link/ucx/reads.h"
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

// Puts its parts together, and ensures that the far end is there and that both ends have released
// everything before the connection ends. Its parts live on the worker's thread.
class UcxConnection final : public LinkConnection<UcxConnection, os::EventLoop>, public End {
 public:
  using Ready = UniqueFunction<void(Status)>;

  UcxConnection(ConnectionOptions options, Worker& worker);

  // On the worker's thread, once: joins the far end over `endpoint`. `ready` runs when it has
  // answered, or has not in time.
  void Start(EndpointRef endpoint, Ready ready);

  const std::vector<LaneInfo>& lanes() const override { return lanes_; }
  LinkAccess Access(const RemoteKey&, const Region&) const override {
    return {.registration = "ucx-writable", .key = "lease"};
  }
  uint64_t gets_ended() const override { return reads_.ended(); }
  unsigned depth() const override { return options_.gets; }
  uint64_t chunk_bytes() const override { return options_.chunk_bytes; }

  void Export(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) override;
  void Revoke(const RemoteKey& key, Task done) override;
  void Lend(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) override;
  void EndLoan(const RemoteKey& key, Task done) override;
  void Release(const RemoteKey& key) override;
  void Evidence(UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done) override;

  void Arrived(Message message) override;
  void EndpointFailed(const Endpoint& endpoint) override;

 private:
  friend class LinkConnection;
  void StartGet(const GetRequest& request, GetDone done) { reads_.Start(request, std::move(done)); }
  void CancelNow(ChannelId channel) { reads_.Cancel(channel); }
  void SendNow(ChannelId channel, std::string message) {
    dialogue_.Tell(MessageKind::kText, channel, std::move(message));
  }
  void Shut(const Status& why, bool tell_peer);

  void Handle(const Message& message);
  void BecomeReady();
  void KeepWatch();
  void SetLimit(os::Clock::duration limit, void (UcxConnection::*passed)());
  void NotReadyInTime();
  void GiveUpWaiting();
  void FinishIfIdle();
  void Finish();

  const ConnectionOptions options_;
  Worker& worker_;
  const std::vector<LaneInfo> lanes_;
  const Home home_;
  Dialogue dialogue_;
  Exports exports_;
  Reads reads_;
  Ready ready_;
  os::EventLoop::TimerId watch_timer_ = 0;
  os::EventLoop::TimerId limit_timer_ = 0;  // of what the connection waits for just now
  bool was_ready_ = false;
  bool peer_through_ = false;  // the far end has nothing under way any more, or is gone
};

}  // namespace onecopy::ucx
