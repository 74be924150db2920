// A connection made of sockets: lane 0 carries messages, the others carry what is got. Where these
// go to several addresses of the owner, one that ends ends alone: what it was asked for the others
// are asked for.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/core/competition.h"
#include "transport/core/fair_queue.h"
#include "transport/core/link_connection.h"
#include "transport/link/tcp/exports.h"
#include "transport/link/tcp/lane.h"
#include "transport/link/tcp/lane_load.h"
#include "transport/os/event_loop.h"

namespace onecopy::tcp {

struct ConnectionOptions {
  std::string node;  // this one, and the other, for steps
  std::string peer;
  uint32_t data_lanes = 1;
  uint64_t chunk_bytes = 0;
  unsigned gets_per_lane = 2;
  uint64_t socket_buffer_bytes = 0;  // 0: the kernel's choice
  ZeroCopyUse zero_copy = ZeroCopyUse::kOff;
  bool several_addresses = false;  // of the owner
  bool encrypted = false;
  bool own_by_kernel = false;    // where it is encrypted: who does so at this end,
  bool owner_by_kernel = false;  // and, for a reader, at the owner's
};

// State lives on the home thread, which is lane 0's; each lane's on its own.
class TcpConnection final : public LinkConnection<TcpConnection, os::EventLoop>, public LaneOwner {
 public:
  TcpConnection(ConnectionOptions options, os::EventLoop& home);

  // Any thread: a socket that has been greeted becomes lane `index`, served by `loop`. If there is
  // such a lane already the socket is closed; a data lane of an owner with several addresses is
  // replaced by it, as the reader found it to have ended.
  void AttachLane(uint32_t index, os::EventLoop& loop, LaneSocket socket, bool send_welcome);
  // Any thread: closes the connection unless all lanes are attached after `limit`; with several
  // addresses, unless the first and one of the others are.
  void ExpectLanesWithin(os::Clock::duration limit);

  // Reader, home thread. Describes lanes that are not attached when the connection is handed out:
  // from then on nothing that others read of the lanes changes.
  void NameLane(uint32_t index, LaneInfo info);
  void HandOut() { handed_out_ = true; }
  bool HasLane(uint32_t index) const { return lanes_[index] != nullptr; }
  // A data lane has ended, and the connection has not; set once.
  void OnLaneEnded(UniqueFunction<void(uint32_t index, const Status& why)> ended) {
    lane_ended_ = std::move(ended);
  }
  // See Connection::OnAddress.
  void AddressIs(const std::string& address, const Status& why);

  const std::vector<LaneInfo>& lanes() const override { return lane_infos_; }
  LinkAccess Access(const RemoteKey&, const Region&) const override {
    return {.encryption = encryption_};
  }
  uint64_t gets_ended() const override { return gets_ended_; }
  using LinkConnection::peer;
  bool encrypted() const { return options_.encrypted; }
  unsigned depth() const override { return options_.data_lanes * options_.gets_per_lane; }
  uint64_t chunk_bytes() const override { return options_.chunk_bytes; }

  void Export(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) override;
  void Revoke(const RemoteKey& key, Task done) override;
  void Lend(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) override;
  void EndLoan(const RemoteKey& key, Task done) override;
  void Release(const RemoteKey&) override {}  // this end keeps nothing of a key
  void Evidence(UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done) override;
  void OnAddress(AddressChanged changed) override;

  void GetEnded(unsigned lane, uint64_t tag, Status status, bool report_follows) override;
  void GetLost(unsigned lane, uint64_t tag, Status why) override;
  void GetAbandoned(unsigned lane, uint64_t tag) override;
  void Discarded(unsigned lane, uint64_t bytes) override;
  void MessageArrived(uint64_t channel, std::span<const std::byte> message) override;
  void BodySent(uint64_t tag, bool copied) override;
  void ReportArrived(uint64_t tag, bool copied) override;
  void LaneFailed(std::shared_ptr<Lane> lane, Status status) override;
  const Exports& exports() const override { return exports_; }

 private:
  // The steps of a get: where the owner's kernel copied, and where the bytes were left where they
  // lie.
  struct GetSteps {
    StepList copied;
    StepList left;
  };
  // A get that waits until a lane has room for it.
  struct Waiting {
    ChannelId channel = 0;
    FrameHeader get;  // except for its tag
    Span into;
    GetSteps steps;
    GetDone done;
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

  // Lanes that were this one and have ended.
  struct LaneEnds {
    uint64_t count = 0;
    uint64_t bytes_received = 0;
  };

  friend class LinkConnection;
  void StartGet(const GetRequest& request, GetDone done);
  void CancelNow(ChannelId channel);
  void SendNow(ChannelId channel, std::string message);
  void Shut(const Status& why, bool tell_peer);  // whose sockets tell it

  Result<RemoteKey> ExportNow(const Span& span);
  // Asks for what waits, as far as there is room.
  void Pump();
  void Ask(Waiting waiting, unsigned lane, bool named);
  bool HasRoom(unsigned lane) const;
  // The payload lane with room that would bring so many bytes first, counted from 1; 0: there is
  // none.
  unsigned LaneFor(uint64_t bytes);
  void EndGet(uint64_t tag, Status status, bool report_follows);
  void MakeRoom(unsigned lane, uint64_t bytes);
  GetSteps StepsOf(const std::string& owner_memory, const Region& into);
  void LaneClosed();
  void LaneEnded(const std::shared_ptr<Lane>& lane, const Status& why);
  void Describe(uint32_t index, const LaneSocket& socket);
  size_t DataLanes() const;  // that are attached

  const ConnectionOptions options_;
  Exports exports_;
  std::vector<LaneInfo> lane_infos_;  // of data lanes; complete before the connection is handed out
  std::string encryption_ = "none";   // likewise

  std::atomic<uint64_t> gets_ended_{0};

  // Home thread only.
  std::vector<std::shared_ptr<Lane>> lanes_;  // null until attached
  uint32_t attached_ = 0;
  bool handed_out_ = false;
  UniqueFunction<void(uint32_t, const Status&)> lane_ended_;
  AddressChanged address_changed_;
  std::map<std::string, Status> silent_;  // addresses that carry nothing
  std::unordered_map<uint64_t, Outstanding> gets_;
  std::vector<FairQueue<Waiting>> waiting_;  // of any lane first, then of each
  std::deque<Waiting> lost_;                 // with a lane, of any lane; they go first
  LaneLoads asked_;                          // also for gets that were abandoned
  std::vector<LaneEnds> ends_;               // by lane
  Competition competition_;                  // whose gets come
  uint64_t next_tag_ = 1;
  std::map<std::pair<std::string, std::string>, GetSteps> steps_;
  bool loopback_ = false;  // the wire never leaves the machine
  bool far_ = false;       // it takes long
  size_t open_lanes_ = 0;  // while it is ending
};

}  // namespace onecopy::tcp
