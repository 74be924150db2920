#include "transport/link/verbs/queue_pair.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/link/verbs/wire.h"
#include "transport/os/base/error.h"
#include "transport/os/machine/machine.h"

namespace onecopy::verbs {
namespace {

constexpr uint8_t kHopLimit = 64;
// Of most frames; what is longer is fetched by the device, which takes a round trip to memory.
constexpr uint32_t kInlineBytes = 64;
// Devices flush within a millisecond; one that takes longer may hold up other connections.
constexpr std::chrono::milliseconds kDrainLimit{100};

ibv_mtu MtuOf(uint32_t bytes) {
  for (const ibv_mtu mtu : {IBV_MTU_4096, IBV_MTU_2048, IBV_MTU_1024, IBV_MTU_512}) {
    if (bytes >= 128U << static_cast<unsigned>(mtu)) return mtu;
  }
  return IBV_MTU_256;
}

uint8_t CapTo(int value) { return static_cast<uint8_t>(std::clamp(value, 1, 128)); }

}  // namespace

Status QueuePair::Modify(ibv_qp_attr& attributes, int mask, const char* what) {
  const int error = device_->api().ModifyQp(handle_, &attributes, mask);
  if (error == 0) return OkStatus();
  return {Code::kUnavailable, reasons::kLinkDown,
          std::string(what) + " a queue pair of " + port_.name + ": " + os::ErrnoText(error)};
}

bool QueuePair::UseAddressFor(const Gid& remote) {
  if (IsIpv4(port_.gid.gid) == IsIpv4(remote)) return true;
  const std::optional<GidEntry> entry = ChooseGidFor(port_.gids, remote);
  if (entry) port_.gid = *entry;
  return entry.has_value();
}

Status QueuePair::Create(Progress& progress, QueuePairEvents* events, bool reader) {
  reader_ = reader;
  if (!port_.viability.viable) {
    return {Code::kUnavailable, reasons::kLinkDown, port_.viability.detail, port_.viability.remedy};
  }
  Result<Endpoint*> endpoint = progress.Find(device_);
  if (!endpoint.ok()) return endpoint.status();
  endpoint_ = *endpoint;
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = endpoint_->completion_queue();
  wanted.recv_cq = endpoint_->completion_queue();
  wanted.srq = endpoint_->receive_queue();
  wanted.cap.max_send_wr = Endpoint::kSendQueueDepth;
  wanted.cap.max_send_sge = 1;
  for (const uint32_t most_inline : {kInlineBytes, 0U}) {
    wanted.cap.max_inline_data = most_inline;
    handle_ = device_->api().CreateQp(device_->protection_domain(), &wanted);
    if (handle_ != nullptr) most_inline_ = std::min(wanted.cap.max_inline_data, kInlineBytes);
    if (handle_ != nullptr || errno != EINVAL) break;
  }
  if (handle_ == nullptr) {
    return QueueRefused(device_->name(), "queue pair", errno == 0 ? EIO : errno);
  }
  number_ = handle_->qp_num;
  place_ = *endpoint_->Join(events);
  endpoint_->Announce(place_, number_);
  first_packet_ = static_cast<uint32_t>(os::RandomNumber()) & kMask24;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = port_.pkey_index;
  attributes.port_num = port_.number;
  attributes.qp_access_flags = reader ? 0 : IBV_ACCESS_REMOTE_READ;
  return Modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                "initialising");
}

QueuePairAddress QueuePair::address() const {
  const ibv_device_attr& limits = device_->attributes();
  QueuePairAddress address;
  address.nic = port_.name;
  address.fabric = port_.Fabric();
  address.ethernet = port_.ethernet;
  address.emulated = device_->emulated();
  address.needs_grh = port_.needs_grh;
  address.gid = port_.gid.gid;
  address.lid = port_.lid;
  address.number = number_;
  address.packet_sequence = first_packet_;
  address.mtu_bytes = port_.mtu_bytes;
  address.reads = CapTo(reader_ ? limits.max_qp_init_rd_atom : limits.max_qp_rd_atom);
  return address;
}

Status QueuePair::Connect(const QueuePairAddress& remote) {
  remote_ = remote;
  const uint8_t reads = std::min(address().reads, remote.reads);
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTR;
  ready.path_mtu = MtuOf(std::min(port_.mtu_bytes, remote.mtu_bytes));
  ready.dest_qp_num = remote.number;
  ready.rq_psn = remote.packet_sequence;
  ready.max_dest_rd_atomic = reader_ ? 0 : reads;
  ready.min_rnr_timer = options_.receiver_wait;
  ready.ah_attr.dlid = remote.lid;
  ready.ah_attr.sl = options_.service_level;
  ready.ah_attr.port_num = port_.number;
  // Within one InfiniBand subnet the local identifier is enough, unless several ports share it.
  if (port_.ethernet || port_.needs_grh || remote.needs_grh) {
    ready.ah_attr.is_global = 1;
    std::copy(remote.gid.begin(), remote.gid.end(), ready.ah_attr.grh.dgid.raw);
    ready.ah_attr.grh.sgid_index = static_cast<uint8_t>(port_.gid.index);
    ready.ah_attr.grh.hop_limit = kHopLimit;
    ready.ah_attr.grh.traffic_class = options_.traffic_class;
  }
  ONECOPY_RETURN_IF_ERROR(Modify(ready,
                                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                     IBV_QP_MIN_RNR_TIMER,
                                 "addressing"));
  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.timeout = options_.ack_timeout;
  send.retry_cnt = options_.retries;
  send.rnr_retry = options_.receiver_retries;
  send.sq_psn = first_packet_;
  send.max_rd_atomic = reader_ ? reads : 0;
  ONECOPY_RETURN_IF_ERROR(Modify(send,
                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                                 "starting"));
  ibv_port_attr limits{};
  if (device_->api().QueryPort(device_->context(), port_.number, &limits) != 0) {
    limits.max_msg_sz = 1U << 30;
  }
  max_read_bytes_ =
      static_cast<uint32_t>(std::min<uint64_t>(limits.max_msg_sz, options_.read_bytes));
  connected_ = true;
  return OkStatus();
}

void QueuePair::Stop() {
  if (!exists() || stopped_) return;
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  stopped_ = device_->api().ModifyQp(handle_, &error, IBV_QP_STATE) == 0;
}

void QueuePair::Drain(uint64_t sequence) {
  // What was not connected has received nothing, and a device that does not answer flushes nothing.
  if (!exists() || !connected_ || !stopped_) return;
  const os::Clock::time_point limit = os::Clock::now() + kDrainLimit;
  while (!device_->lost()) {
    // In this order: its completions come before the event.
    const bool received = !device_->says_last_receive() || device_->SaidLastReceive(handle_);
    endpoint_->FetchAll();
    const bool sent = sequence == 0 || endpoint_->HasFetched(place_, sequence);
    if (sent && received) return;
    if (os::Clock::now() >= limit) {
      if (sent) device_->NeverSaysLastReceive();
      return;
    }
    pollfd events{device_->context()->async_fd, POLLIN, 0};
    ::poll(&events, 1, 1);
  }
}

void QueuePair::Destroy() {
  if (!exists()) return;
  ibv_qp* const gone = std::exchange(handle_, nullptr);
  device_->api().DestroyQp(gone);
  device_->ForgetQueuePair(gone);
  endpoint_->Leave(place_, number_);
}

}  // namespace onecopy::verbs
