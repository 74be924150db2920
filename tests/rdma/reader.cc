#include "tests/rdma/reader.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include <chrono>
#include <cstring>

namespace onecopy::testing {
namespace {

constexpr uint8_t kPort = 1;
constexpr std::chrono::minutes kPatience{1};

}  // namespace

Port::Port(const shim::VerbsApi& verbs, const GuestDevice& device)
    : verbs_(verbs), device_(device) {
  ibv_device** const list = verbs.GetDeviceList(nullptr);
  for (ibv_device** each = list; list != nullptr && *each != nullptr; ++each) {
    if (std::strcmp(verbs.GetDeviceName(*each), device.name) == 0)
      context = verbs.OpenDevice(*each);
  }
  if (list != nullptr) verbs.FreeDeviceList(list);
  if (context == nullptr) return;
  ::fcntl(context->async_fd, F_SETFL, ::fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
  pd = verbs.AllocPd(context);
  if (pd == nullptr) return;
  cq = verbs.CreateCq(context, 2 * kMaxReceives, nullptr, nullptr, 0);
  if (cq == nullptr) return;
  qp = MakeQueuePair();
}

Port::~Port() {
  if (qp != nullptr) verbs_.DestroyQp(qp);
  if (cq != nullptr) verbs_.DestroyCq(cq);
  if (pd != nullptr) verbs_.DeallocPd(pd);
  if (context != nullptr) verbs_.CloseDevice(context);
}

int Port::GidIndex(ibv_gid* gid) const {
  ibv_port_attr attributes = {};
  if (verbs_.QueryPort(context, kPort, &attributes) != 0) return -1;
  uint8_t wanted[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};  // an IPv4 address in IPv6
  ::inet_pton(AF_INET, device_.address, wanted + 12);
  for (int i = 0; i < attributes.gid_tbl_len; ++i) {
    ibv_gid_entry entry = {};
    if (verbs_.QueryGidEx(context, kPort, static_cast<uint32_t>(i), &entry, 0, sizeof entry) == 0 &&
        entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
        std::memcmp(entry.gid.raw, wanted, sizeof wanted) == 0) {
      *gid = entry.gid;
      return i;
    }
  }
  return -1;
}

ibv_qp* Port::MakeQueuePair() {
  ibv_qp_init_attr wanted = {};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.sq_sig_all = 1;
  wanted.cap = {.max_send_wr = 4,
                .max_recv_wr = kMaxReceives,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  return verbs_.CreateQp(pd, &wanted);
}

namespace {

int MakeReady(const shim::VerbsApi& verbs, Port& port, int gid_index, const ibv_gid& other_gid,
              uint32_t other_number, uint32_t other_first_packet = 0) {
  ibv_qp_attr state = {};
  state.qp_state = IBV_QPS_INIT;
  state.port_num = kPort;
  state.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  if (const int error = verbs.ModifyQp(
          port.qp, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    return error;
  state.qp_state = IBV_QPS_RTR;
  state.path_mtu = IBV_MTU_4096;
  state.dest_qp_num = other_number;
  state.rq_psn = other_first_packet;
  state.max_dest_rd_atomic = 1;
  state.min_rnr_timer = 12;
  state.ah_attr.is_global = 1;
  state.ah_attr.port_num = kPort;
  state.ah_attr.grh.dgid = other_gid;
  state.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index);
  state.ah_attr.grh.hop_limit = 64;
  if (const int error =
          verbs.ModifyQp(port.qp, &state,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return error;
  state.qp_state = IBV_QPS_RTS;
  state.timeout = 15;  // 4.096 µs · 2^15: 0.13 s
  state.retry_cnt = 6;
  state.rnr_retry = 6;
  state.max_rd_atomic = 1;
  return verbs.ModifyQp(port.qp, &state,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

}  // namespace

int Connect(const shim::VerbsApi& verbs, Port& one, Port& other) {
  ibv_gid one_gid = {};
  ibv_gid other_gid = {};
  const int one_index = one.GidIndex(&one_gid);
  const int other_index = other.GidIndex(&other_gid);
  if (one_index < 0 || other_index < 0) return EADDRNOTAVAIL;
  const int error = MakeReady(verbs, one, one_index, other_gid, other.qp->qp_num);
  return error != 0 ? error : MakeReady(verbs, other, other_index, one_gid, one.qp->qp_num);
}

int ConnectTo(const shim::VerbsApi& verbs, Port& port, const ibv_gid& other_gid,
              uint32_t other_number, uint32_t other_first_packet) {
  ibv_gid own = {};
  const int index = port.GidIndex(&own);
  if (index < 0) return EADDRNOTAVAIL;
  return MakeReady(verbs, port, index, other_gid, other_number, other_first_packet);
}

int PostRead(Port& port, const ibv_mr& local, uint64_t local_address, uint64_t remote,
             uint32_t rkey, uint32_t bytes) {
  ibv_sge piece = {.addr = local_address, .length = bytes, .lkey = local.lkey};
  ibv_send_wr request = {};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma = {.remote_addr = remote, .rkey = rkey};
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(port.qp, &request, &bad);
}

ibv_wc WaitForCompletion(Port& port) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  ibv_wc completion = {};
  int found = 0;
  while (found == 0 && std::chrono::steady_clock::now() < deadline)
    found = ibv_poll_cq(port.cq, 1, &completion);
  if (found <= 0) completion.status = IBV_WC_GENERAL_ERR;
  return completion;
}

}  // namespace onecopy::testing
