// A connection made of queue pairs.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "transport/core/toolkit/link_connection.h"
#include "transport/link/verbs/control_channel.h"
#include "transport/link/verbs/exports.h"
#include "transport/link/verbs/lanes.h"
#include "transport/link/verbs/memory_region.h"
#include "transport/link/verbs/offer.h"
#include "transport/link/verbs/options.h"
#include "transport/link/verbs/progress.h"
#include "transport/link/verbs/reads.h"

namespace onecopy::verbs {

// Puts its parts together, which all live on one progress thread, its home: lanes, what is read by
// them, what the far end may read, and the words between the two. A lane that fails is given up:
// its reads and frames move to the others, and the connection ends with its last lane.
class VerbsConnection final : public LinkConnection<VerbsConnection, os::EventLoop>,
                              public LaneOwner {
 public:
  VerbsConnection(const Options& options, std::string peer, Progress& progress,
                  std::vector<std::shared_ptr<Device>> devices, std::shared_ptr<Pairings> pairings,
                  std::shared_ptr<MemoryTable> memory, SlowCalls slow);

  // Home thread, reader: as Lanes has them. Where none of the lanes carries, it has closed.
  Result<Offer> MakeOffer();
  void Establish(const Answer& answer, UniqueFunction<void(Status)> done);
  // Home thread, owner. Closes unless the reader speaks within a few seconds.
  Result<Answer> MakeAnswer(const Offer& offer) { return lanes_.MakeAnswer(offer); }
  // Any thread: a port, or all of a device's (0), is gone.
  void OnPortDown(const Device* device, uint8_t port, const Status& why);
  // Any thread: ports of the device have other addresses than they had, or none.
  void OnPortsChanged(const Device* device);

  const std::vector<LaneInfo>& lanes() const override { return lanes_.infos(); }
  LinkAccess Access(const RemoteKey& key, const Region& into) const override;
  uint64_t gets_ended() const override { return reads_.ended(); }
  unsigned depth() const override;
  uint64_t chunk_bytes() const override { return options_.read_bytes; }
  void Export(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) override;
  void Revoke(const RemoteKey& key, Task done) override;
  void Lend(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) override;
  void EndLoan(const RemoteKey& key, Task done) override;
  void Release(const RemoteKey& key) override;
  void Evidence(UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done) override;

  void OnGetDone(const GetRef& get) override { reads_.OnDone(get); }
  void OnFrame(unsigned lane, std::span<const std::byte> bytes) override;
  void OnFramesArrived(unsigned lane, uint64_t number) override;
  void OnLaneFailed(unsigned lane, const Status& why, const GetRef& culprit) override;

 private:
  friend class LinkConnection;
  void StartGet(const GetRequest& request, GetDone done) { reads_.Start(request, std::move(done)); }
  void CancelNow(ChannelId channel) { reads_.Cancel(channel); }
  void SendNow(ChannelId channel, const std::string& message) {
    control_.Send(FrameKind::kMessage, channel, message);
    ShutIfOverfull();
  }
  void Shut(const Status& why, bool tell_peer);
  void ShutIfOverfull() {
    if (!control_.overfull()) return;
    Shut({Code::kUnavailable, reasons::kLinkDown,
          "the peer does not receive the messages that it is sent"},
         true);
  }

  void Dispatch(const Frame& frame);  // one of the peer's that is numbered
  void ShutUnless(const Status& ok) {
    if (!ok.ok()) Shut(ok, true);
  }
  void Finish();

  const Options& options_;
  const std::shared_ptr<MemoryTable> memory_;
  const Home home_;
  bool reader_ = false;
  Lanes lanes_;
  ControlChannel control_;
  Exports exports_;
  Reads reads_;
  uint64_t bye_number_ = 0;
};

}  // namespace onecopy::verbs
