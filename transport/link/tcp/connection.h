// A connection made of sockets: lane 0 carries messages, the others carry what is got. Where these
// go to several addresses of the owner, one that ends ends alone: what it was asked for the others
// are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/core/toolkit/link_connection.h"
#include "transport/link/tcp/connection_options.h"
#include "transport/link/tcp/exports.h"
#include "transport/link/tcp/lane.h"
#include "transport/link/tcp/reads.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::tcp {

// Has the lanes and carries messages. As a reader it leaves gets to Reads; as an owner it has
// Exports, from which its lanes send. State lives on the home thread, which is lane 0's; what is a
// lane's own, on the lane's.
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
  uint64_t gets_ended() const override { return reads_.ended(); }
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
  // Lanes that were this one and have ended.
  struct LaneEnds {
    uint64_t count = 0;
    uint64_t bytes_received = 0;
  };

  friend class LinkConnection;
  void StartGet(const GetRequest& request, GetDone done) { reads_.Start(request, std::move(done)); }
  void CancelNow(ChannelId channel) { reads_.Cancel(channel); }
  void SendNow(ChannelId channel, std::string message);
  void Shut(const Status& why, bool tell_peer);  // whose sockets tell it

  Result<RemoteKey> ExportNow(const Span& span);
  void LaneClosed();
  void LaneEnded(const std::shared_ptr<Lane>& lane, const Status& why);
  void Describe(uint32_t index, const LaneSocket& socket);
  size_t DataLanes() const;  // that are attached

  const ConnectionOptions options_;
  Exports exports_;
  std::vector<LaneInfo> lane_infos_;  // of data lanes; complete before the connection is handed out
  std::string encryption_ = "none";   // likewise

  // Home thread only.
  std::vector<std::shared_ptr<Lane>> lanes_;  // null until attached
  uint32_t attached_ = 0;
  bool handed_out_ = false;
  UniqueFunction<void(uint32_t, const Status&)> lane_ended_;
  AddressChanged address_changed_;
  std::map<std::string, Status> silent_;  // addresses that carry nothing
  std::vector<LaneEnds> ends_;            // by lane
  Reads reads_;
  size_t open_lanes_ = 0;  // while it is ending
};

}  // namespace onecopy::tcp
