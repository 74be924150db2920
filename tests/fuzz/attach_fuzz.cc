// attach.sock: an input is what a client sends on it, packet by packet, some of them with
// descriptors.
#include <fcntl.h>
#include <google/protobuf/stubs/logging.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/attach/attach_server.h"
#include "daemon/engine/registry/sessions.h"
#include "onecopy/v1/attach.pb.h"
#include "proto/codec/protocol.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_folder.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/sockets/unix_socket.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::attach {
namespace {

constexpr int kPatienceMs = 20'000;
constexpr size_t kMaxPackets = 16;

class Served {
 public:
  Served() {
    Options options;
    options.path = path();
    options.node = "east";
    options.version = "1.2.3";
    options.report = [](const Status&) {};
    auto server = AttachServer::Start(options, engine_.loop(), sessions_);
    EXPECT(server.ok());
    server_ = std::move(*server);
  }

  std::string path() const { return folder_ / "attach.sock"; }

 private:
  testing::TempFolder folder_;
  engine::Sessions sessions_{"east", 998};
  os::LoopThread engine_{"engine"};
  std::unique_ptr<AttachServer> server_;
};

// Until there is something to read, or the end: every packet is answered, or is the last.
bool Answered(int socket) {
  pollfd wait{socket, POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&wait, 1, kPatienceMs)) < 0 && errno == EINTR) {  // libFuzzer's own alarm
  }
  EXPECT(ready == 1);
  const auto packet = os::ReceivePacket(socket, kMaxAttachBytes);
  if (!packet.ok() || !packet->has_value() || (*packet)->end) return false;
  v1::AttachReply reply;
  EXPECT(reply.ParseFromString((*packet)->bytes));
  return true;
}

void Talk(const std::string& path, fuzz::Input input) {
  const auto socket = os::ConnectUnix(path, SOCK_SEQPACKET);
  EXPECT(socket.ok());
  const os::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (size_t i = 0; i < kMaxPackets && !input.empty(); ++i) {
    const uint8_t fds = input.Byte();
    const std::string_view bytes = input.Cut(input.Get<uint16_t>());
    if (bytes.empty()) continue;  // which would be the end
    const std::vector<int> passed((fds & 1) != 0 ? fds >> 1 & 15 : 0, null.get());
    if (!os::SendPacket(socket->get(), bytes, passed).ok() || !Answered(socket->get())) return;
  }
}

std::string Packet(const v1::AttachRequest& request, uint8_t fds = 0) {
  const std::string bytes = request.SerializeAsString();
  return std::string{static_cast<char>(fds == 0 ? 0 : fds << 1 | 1),
                     static_cast<char>(bytes.size() & 0xff), static_cast<char>(bytes.size() >> 8)} +
         bytes;
}

}  // namespace
}  // namespace onecopy::attach

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Not one line for each text that is none.
  [[maybe_unused]] static const auto loud = google::protobuf::SetLogHandler(nullptr);
  static onecopy::attach::Served& served = *new onecopy::attach::Served;
  onecopy::attach::Talk(served.path(), onecopy::fuzz::Input(data, size));
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  using namespace onecopy::attach;
  v1::AttachRequest hello;
  hello.mutable_hello()->set_protocol_min(kClientProtocolMin);
  hello.mutable_hello()->set_protocol_max(kClientProtocolMax);
  hello.mutable_hello()->set_client("test 1.0");
  v1::AttachRequest pass;
  pass.mutable_pass_descriptor();
  v1::AttachRequest ring;
  ring.mutable_open_ring();
  v1::AttachRequest route;
  route.mutable_open_route()->mutable_source()->set_buffer("a");
  route.mutable_open_route()->mutable_destination()->set_buffer("b");
  return {Packet(hello),
          Packet(hello) + Packet(pass, 1),
          Packet(hello) + Packet(pass, 3),
          Packet(hello) + Packet(ring) + Packet(route),
          Packet(pass, 1),
          Packet(hello, 2)};
}
