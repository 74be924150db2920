// Descriptors that take long to close, or for ever: they hold up nobody but who passed them.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "onecopy/v1/attach.pb.h"
#include "proto/codec/protocol.h"
#include "proto/codec/status_codec.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/sockets/unix_socket.h"

namespace descriptors_test {
namespace {

using onecopy::Code;
using onecopy::Status;
using onecopy::os::UniqueFd;
using namespace onecopy::testing;
namespace os = onecopy::os;
namespace v1 = onecopy::v1;

constexpr int kPatienceMs = 20'000;

void Await(int fd, short events) {
  pollfd wait{fd, events, 0};
  REQUIRE(::poll(&wait, 1, kPatienceMs) == 1);
}

// A socket whose last close waits, for ten minutes, until its far end has read what was sent.
struct SlowSocket {
  UniqueFd near;
  UniqueFd far;

  SlowSocket() {
    auto listener = os::ListenTcp({"127.0.0.1", 0}, 1);
    REQUIRE_OK(listener);
    auto connected = os::ConnectTcp(*os::LocalAddress(listener->get()));
    REQUIRE_OK(connected);
    near = std::move(*connected);
    Await(listener->get(), POLLIN);
    far = UniqueFd(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(far);
    Await(near.get(), POLLOUT);
    const std::string bytes(1 << 20, 'x');
    while (::send(near.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    const linger patient{.l_onoff = 1, .l_linger = 600};
    REQUIRE(::setsockopt(near.get(), SOL_SOCKET, SO_LINGER, &patient, sizeof patient) == 0);
  }
};

std::string Hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string FromHex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// Speaks as the client library does, but leaves when it wants.
struct RawClient {
  UniqueFd socket;

  explicit RawClient(const Node& node) {
    auto made = os::ConnectUnix(node.run_dir() + "/attach.sock", SOCK_SEQPACKET);
    REQUIRE_OK(made);
    socket = std::move(*made);
    REQUIRE_OK(os::SendPacket(socket.get(), Hello().SerializeAsString()));
    Await(socket.get(), POLLIN);
    REQUIRE_OK(os::ReceivePacket(socket.get(), onecopy::kMaxAttachBytes));
  }
  void Pass(int fd) const {
    REQUIRE_OK(os::SendPacket(socket.get(), PassDescriptor().SerializeAsString(), fd));
  }
  static v1::AttachRequest Hello() {
    v1::AttachRequest request;
    request.mutable_hello()->set_protocol_min(onecopy::kClientProtocolMin);
    request.mutable_hello()->set_protocol_max(onecopy::kClientProtocolMax);
    return request;
  }
  static v1::AttachRequest PassDescriptor() {
    v1::AttachRequest request;
    request.mutable_pass_descriptor();
    return request;
  }
};

}  // namespace

TEST_CASE("a socket that lingers holds up nobody, however its client leaves it") {
  Survivors nodes;
  SlowSocket slow;
  RawClient leaver(nodes.east);
  RawClient other(nodes.east);
  {
    const Frozen frozen(nodes.east);
    leaver.Pass(slow.near.get());
    leaver.Pass(slow.near.get());
    other.Pass(slow.near.get());
    slow.near.Reset();  // so that the daemon's is the last close
    leaver.socket.Reset();
    other.socket.Reset();
  }
  nodes.Check();
}

TEST_CASE("who passes what lingers is answered once it is closed") {
  Survivors nodes;
  SlowSocket slow;
  RawClient passer(nodes.east);
  {
    const Frozen frozen(nodes.east);
    passer.Pass(slow.near.get());
    slow.near.Reset();
  }
  nodes.Check();
  pollfd answered{passer.socket.get(), POLLIN, 0};
  CHECK(::poll(&answered, 1, 0) == 0);
  slow.far.Reset();
  Await(passer.socket.get(), POLLIN);
  const auto packet = os::ReceivePacket(passer.socket.get(), onecopy::kMaxAttachBytes);
  REQUIRE_OK(packet);
  v1::AttachReply reply;
  REQUIRE(reply.ParseFromString((*packet)->bytes));
  CheckFailed(onecopy::FromProto(reply.error()), Code::kInvalidArgument, "BAD_HANDLE");
}

TEST_CASE("a file whose file system never answers is asked nothing, and holds up nobody") {
  if (::geteuid() != 0 || ::access("/dev/fuse", R_OK | W_OK) != 0) {
    ONECOPY_SKIP("only root, where there is FUSE, can serve a file system");
  }
  Survivors nodes;
  TempFolder folder;
  Process passer({.program = "/usr/bin/python3",
                  .arguments = {ONECOPY_SILENT_FILE, folder.path().string(),
                                nodes.east.run_dir() + "/attach.sock",
                                Hex(RawClient::Hello().SerializeAsString()),
                                Hex(RawClient::PassDescriptor().SerializeAsString())},
                  .input_file = {}});
  REQUIRE(passer.ReadLine() == "passed\n");
  nodes.Check();
  passer.CloseInput();  // its server ends, and nobody waits for it any longer
  const std::string answer = passer.ReadLine();
  v1::AttachReply reply;
  REQUIRE(reply.ParseFromString(FromHex(answer.substr(0, answer.size() - 1))));
  const Status refused = onecopy::FromProto(reply.error());
  CheckFailed(refused, Code::kInvalidArgument, "BAD_HANDLE");
  CHECK(refused.message().find("memory file") != std::string::npos);
  nodes.Check();
}

TEST_CASE("descriptors that come by api.sock are not taken") {
  Survivors nodes;
  SlowSocket slow;
  auto api = os::ConnectUnix(nodes.east.run_dir() + "/api.sock", SOCK_STREAM);
  REQUIRE_OK(api);
  Await(api->get(), POLLOUT);
  const Status sent = os::SendPacket(api->get(), "PRI * HTTP/2.0\r\n", slow.near.get());
  if (sent.ok()) ONECOPY_SKIP("this kernel lets nobody refuse descriptors (Linux 6.16 does)");
  nodes.Check();
}
}  // namespace descriptors_test
