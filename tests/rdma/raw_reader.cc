#include "tests/rdma/raw_reader.h"

#include <algorithm>
#include <future>
#include <stdexcept>

#include "tests/support/link_pair.h"
#include "transport/link/verbs/control.h"

namespace onecopy::testing {
namespace {

constexpr uint64_t kFrame = 1;  // work request ids of what is not a read

template <typename T>
T Taken(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return *std::move(result);
}

void Require(bool done, const char* what) {
  if (!done) throw std::runtime_error(what);
}

}  // namespace

RawReader::RawReader(const shim::VerbsApi& verbs, Link& owner)
    : verbs_(verbs), port_(verbs, kGuestDevices[1]) {
  Require(port_.qp != nullptr, "no queue pair");
  const auto region = [&](std::vector<std::byte>& memory) {
    return verbs.RegMr(port_.pd, memory.data(), memory.size(),
                       reinterpret_cast<uint64_t>(memory.data()), IBV_ACCESS_LOCAL_WRITE);
  };
  landing_region_ = region(landing_);
  frames_region_ = region(frames_);
  Require(landing_region_ != nullptr && frames_region_ != nullptr, "no region");

  ibv_gid gid{};
  Require(port_.GidIndex(&gid) >= 0, "no GID");
  verbs::QueuePairAddress own;
  own.nic = "raw";
  own.fabric = owner.Describe().nics.at(0).fabric;
  own.ethernet = true;
  own.emulated = true;
  std::copy(std::begin(gid.raw), std::end(gid.raw), own.gid.begin());
  own.number = port_.qp->qp_num;
  own.mtu_bytes = 4096;
  own.reads = 1;
  Link::Accepted accepted = Taken(Accept(owner, "raw", Encode(verbs::Offer{{own}})));
  connection_ = std::move(accepted.connection);
  const verbs::Answer answer = Taken(verbs::DecodeAnswer(accepted.answer));
  Require(answer.lanes.size() == 1 && answer.lanes[0].present, "the offered lane was not taken");
  const verbs::QueuePairAddress& other = answer.lanes[0].address;
  ibv_gid other_gid{};
  std::copy(other.gid.begin(), other.gid.end(), other_gid.raw);
  Require(ConnectTo(verbs, port_, other_gid, other.number, other.packet_sequence) == 0,
          "the queue pair cannot be connected");
  for (int i = 0; i < Port::kMaxReceives; ++i) PostReceive();
  SendHello();
}

RawReader::~RawReader() {
  // The queue pair may still write into the memory until it is gone.
  if (port_.qp != nullptr) verbs_.DestroyQp(port_.qp);
  port_.qp = nullptr;
  for (ibv_mr* region : {landing_region_, frames_region_}) {
    if (region != nullptr) verbs_.DeregMr(region);
  }
}

void RawReader::PostReceive() {
  ibv_sge piece = {reinterpret_cast<uint64_t>(frames_.data()),
                   static_cast<uint32_t>(frames_.size()), frames_region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = kFrame;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  Require(ibv_post_recv(port_.qp, &request, &bad) == 0, "no receive");
}

void RawReader::SendHello() {
  const std::string hello = Encode(verbs::Frame{verbs::FrameKind::kHello, 0, 0, {}});
  std::copy_n(reinterpret_cast<const std::byte*>(hello.data()), hello.size(), landing_.begin());
  ibv_sge piece = {reinterpret_cast<uint64_t>(landing_.data()), static_cast<uint32_t>(hello.size()),
                   landing_region_->lkey};
  ibv_send_wr request{};
  request.wr_id = kFrame;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  Require(ibv_post_send(port_.qp, &request, &bad) == 0, "no send");
  Require(WaitFor(IBV_WC_SEND) == IBV_WC_SUCCESS, "the link did not take the first frame");
}

// The opcode of a failed completion is not defined, so those are told from frames by their id.
ibv_wc_status RawReader::WaitFor(ibv_wc_opcode opcode) {
  while (true) {
    const ibv_wc completion = WaitForCompletion(port_);
    if (completion.status != IBV_WC_SUCCESS) {
      if (completion.wr_id == kFrame && opcode == IBV_WC_RDMA_READ) continue;  // flushed
      return completion.status;
    }
    if (completion.opcode == opcode) return IBV_WC_SUCCESS;
    PostReceive();
  }
}

ibv_wc_status RawReader::Read(const verbs::Key::Remote& remote, uint32_t bytes) {
  Require(bytes <= landing_.size(), "more than fits");
  std::fill(landing_.begin(), landing_.end(), std::byte{0});
  Require(PostRead(port_, *landing_region_, reinterpret_cast<uint64_t>(landing_.data()),
                   remote.address, remote.rkey, bytes) == 0,
          "no read");
  return WaitFor(IBV_WC_RDMA_READ);
}

RemoteKey ExportAndWait(Connection& connection, const Span& span) {
  std::promise<Result<RemoteKey>> exported;
  connection.Export(span, [&](Result<RemoteKey> key) { exported.set_value(std::move(key)); });
  return Taken(exported.get_future().get());
}

}  // namespace onecopy::testing
