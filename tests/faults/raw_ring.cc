#include "tests/faults/raw_ring.h"

#include <poll.h>
#include <sys/socket.h>

#include "proto/codec/protocol.h"

namespace onecopy::testing {
namespace {

constexpr int kPatienceMs = 20'000;

}  // namespace

RawRing::RawRing(const Node& node) {
  auto attach = os::ConnectUnix(node.run_dir() + "/attach.sock", SOCK_SEQPACKET);
  REQUIRE_OK(attach);
  attach_ = std::move(*attach);
  v1::AttachRequest hello;
  hello.mutable_hello()->set_protocol_min(kClientProtocolMin);
  hello.mutable_hello()->set_protocol_max(kClientProtocolMax);
  REQUIRE(Ask(hello).welcome().ring_layout() == ring::kLayout);
  v1::AttachRequest open;
  open.mutable_open_ring();
  std::vector<os::UniqueFd> fds;
  prefix_ = Ask(open, &fds).ring().transfer_prefix();
  REQUIRE(fds.size() == 2);
  memory_ = std::move(fds[0]);
  wake_ = fds[1].Duplicate();
  auto mapping = os::MapShared(memory_.get(), sizeof(ring::Shared));
  REQUIRE_OK(mapping);
  mapping_ = std::move(*mapping);
  auto end = ring::ClientEnd::Open(memory_, std::move(fds[1]));
  REQUIRE_OK(end);
  end_ = std::make_unique<ring::ClientEnd>(std::move(*end));
}

v1::AttachReply RawRing::Ask(const v1::AttachRequest& request, std::vector<os::UniqueFd>* fds) {
  REQUIRE_OK(os::SendPacket(attach_.get(), request.SerializeAsString()));
  pollfd wait{attach_.get(), POLLIN, 0};
  REQUIRE(::poll(&wait, 1, kPatienceMs) == 1);
  auto packet = os::ReceivePacket(attach_.get(), kMaxAttachBytes);
  REQUIRE_OK(packet);
  REQUIRE(packet->has_value());
  v1::AttachReply reply;
  REQUIRE(reply.ParseFromString((*packet)->bytes));
  INFO(reply.DebugString());
  REQUIRE_FALSE(reply.has_error());
  if (fds != nullptr) *fds = std::move((*packet)->fds);
  return reply;
}

uint64_t RawRing::OpenRoute(const std::string& source, const std::string& destination) {
  v1::AttachRequest request;
  request.mutable_open_route()->mutable_source()->set_buffer(source);
  request.mutable_open_route()->mutable_destination()->set_buffer(destination);
  return Ask(request).route().route();
}

void RawRing::Wake() const {
  static_cast<void>(!::send(wake_.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
}

ring::Ended RawRing::Next() {
  ring::Ended ended;
  while (!end_->Reap(&ended)) end_->Sleep(std::chrono::seconds(1));
  return ended;
}

ring::State RawRing::AwaitEnd() {
  while (end_->state() == ring::State::kOpen) end_->Sleep(std::chrono::seconds(1));
  return end_->state();
}

}  // namespace onecopy::testing
