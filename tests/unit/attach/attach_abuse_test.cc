#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "onecopy/reasons.h"
#include "proto/codec/status_codec.h"
#include "tests/unit/attach/attach_rig.h"
#include "transport/os/sockets/host_port.h"

using namespace onecopy;
using attach::Client;
using attach::Rig;

namespace {

// The connection says why, and is then at its end.
void ExpectRefusal(Client& client, Code code, std::string_view reason) {
  const v1::AttachReply reply = client.Receive();
  REQUIRE(reply.has_error());
  const Status status = FromProto(reply.error());
  INFO(status.ToString());
  CHECK(status.code() == code);
  CHECK(status.reason() == reason);
  CHECK_FALSE(status.message().empty());
  client.ExpectEnd();
}

void ExpectStillServing(Rig& rig) {
  Client client(rig.path());
  CHECK(rig.Find(client.Attach()).ok());
}

size_t OpenDescriptors() {
  size_t count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

os::UniqueFd SomeFd() { return os::UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

TEST_CASE("a daemon without rings or mappings says so, and refuses who asks for one all the same") {
  Rig rig;
  v1::AttachRequest request;
  SECTION("a ring") { request.mutable_open_ring(); }
  SECTION("a route") { request.mutable_open_route(); }
  SECTION("a mapping") { request.mutable_map_buffer(); }
  Client early(rig.path());
  early.Send(request);
  ExpectRefusal(early, Code::kUnauthenticated, reasons::kNoSession);
  Client client(rig.path());
  client.SendHello();
  const v1::AttachReply welcome = client.Receive();
  CHECK(welcome.welcome().ring_layout() == 0);
  CHECK_FALSE(welcome.welcome().maps());
  client.Send(request);
  ExpectRefusal(client, Code::kInvalidArgument, reasons::kBadArgument);
  ExpectStillServing(rig);
}

TEST_CASE("garbage, an empty request and a too long packet are answered and end the connection") {
  Rig rig;
  {
    Client client(rig.path());
    REQUIRE_OK(os::SendPacket(client.fd(), "GET / HTTP/1.1\r\n\r\n"));
    ExpectRefusal(client, Code::kInvalidArgument, reasons::kBadArgument);
  }
  {
    Client client(rig.path());
    REQUIRE_OK(os::SendPacket(client.fd(), std::string("\x9a\x06\x00", 3)));  // an unknown field
    ExpectRefusal(client, Code::kInvalidArgument, reasons::kBadArgument);
  }
  {
    Client client(rig.path());
    client.Attach();
    REQUIRE_OK(os::SendPacket(client.fd(), std::string(kMaxAttachBytes + 1, 'x')));
    ExpectRefusal(client, Code::kInvalidArgument, reasons::kBadArgument);
  }
  rig.WaitForClosed(1);
  ExpectStillServing(rig);
}

TEST_CASE("a packet of the greatest length is taken") {
  Rig rig;
  Client client(rig.path());
  v1::AttachRequest request = Client::Hello();
  while (request.ByteSizeLong() < kMaxAttachBytes) {
    request.mutable_hello()->mutable_client()->push_back('x');
  }
  CHECK(request.ByteSizeLong() == kMaxAttachBytes);
  client.Send(request);
  const v1::AttachReply reply = client.Receive();
  REQUIRE(reply.has_welcome());
  CHECK(rig.IdentityOf(reply.welcome().token()).program.size() == 256);
}

TEST_CASE("the first message must be Hello, and there is only one") {
  Rig rig;
  {
    Client client(rig.path());
    const os::UniqueFd fd = SomeFd();
    client.SendFds(Client::PassDescriptor(), {fd.get()});
    ExpectRefusal(client, Code::kUnauthenticated, reasons::kNoSession);
  }
  {
    Client client(rig.path());
    client.Attach();
    client.SendHello();
    ExpectRefusal(client, Code::kInvalidArgument, reasons::kBadArgument);
    rig.WaitForClosed(1);
  }
  {
    Client client(rig.path());
    const os::UniqueFd fd = SomeFd();
    client.SendFds(Client::Hello(), {fd.get()});
    ExpectRefusal(client, Code::kInvalidArgument, reasons::kBadArgument);
  }
}

TEST_CASE("protocol ranges that do not meet are refused with both of them") {
  Rig rig;
  const std::array<std::pair<uint32_t, uint32_t>, 4> foreign = {
      {{kClientProtocolMax + 1, kClientProtocolMax + 5},
       {0, 0},
       {5, 2},
       {0, kClientProtocolMin - 1}}};
  for (const auto& [least, most] : foreign) {
    Client client(rig.path());
    client.SendHello(least, most);
    const v1::AttachReply reply = client.Receive();
    REQUIRE(reply.has_error());
    const Status status = FromProto(reply.error());
    CHECK(status.reason() == reasons::kPeerIncompatible);
    CHECK(status.message().find(std::to_string(least) + " to " + std::to_string(most)) !=
          std::string::npos);
    client.ExpectEnd();
  }
  Client newer(rig.path());
  newer.SendHello(0, kClientProtocolMax + 7);
  const v1::AttachReply reply = newer.Receive();
  REQUIRE(reply.has_welcome());
  CHECK(reply.welcome().protocol() == kClientProtocolMax);
}

TEST_CASE("anything but one descriptor is refused, all are closed, and the session goes on") {
  Rig rig;
  Client client(rig.path());
  const std::string token = client.Attach();
  const os::UniqueFd fd = SomeFd();
  const size_t before = OpenDescriptors();

  client.Send(Client::PassDescriptor());
  CHECK(FromProto(client.Receive().error()).reason() == reasons::kBadArgument);
  for (const size_t count : {2, 16, 17, 200}) {
    client.SendFds(Client::PassDescriptor(), std::vector<int>(count, fd.get()));
    CHECK(FromProto(client.Receive().error()).reason() == reasons::kBadArgument);
  }
  CHECK(OpenDescriptors() == before);
  client.SendFds(Client::PassDescriptor(), {fd.get()});
  CHECK(client.Receive().has_passed());
  CHECK(rig.Find(token).ok());
}

TEST_CASE("descriptors beyond a session's limit are refused and closed") {
  Rig rig;
  Client client(rig.path());
  client.Attach();
  const os::UniqueFd fd = SomeFd();
  for (size_t i = 0; i < engine::Sessions::kMaxDeposits; ++i) {
    client.SendFds(Client::PassDescriptor(), {fd.get()});
    REQUIRE(client.Receive().has_passed());
  }
  const size_t before = OpenDescriptors();
  client.SendFds(Client::PassDescriptor(), {fd.get()});
  CHECK(FromProto(client.Receive().error()).reason() == reasons::kQuota);
  attach::WaitUntil([&] { return OpenDescriptors() == before; });
}

TEST_CASE("a uid has a limited number of connections") {
  Rig rig([](attach::Options& options) { options.most_per_uid = 3; });
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(rig.path()));
    clients.back()->Attach();
  }
  Client refused(rig.path());
  ExpectRefusal(refused, Code::kResourceExhausted, reasons::kQuota);
  clients.pop_back();
  rig.WaitForClosed(1);
  Client again(rig.path());
  again.Attach();
}

TEST_CASE("who says nothing has to go before others are refused") {
  const bool each = GENERATE(true, false);
  Rig rig(
      [each](attach::Options& options) { (each ? options.most_per_uid : options.most_new) = 3; });
  Client oldest(rig.path());
  Client older(rig.path());
  Client old(rig.path());
  Client speaks(rig.path());
  speaks.Attach();
  ExpectRefusal(oldest, Code::kResourceExhausted, reasons::kQuota);
  older.Attach();
  if (!each) return;
  // Those that have spoken stay.
  Client another(rig.path());
  another.Attach();
  ExpectRefusal(old, Code::kResourceExhausted, reasons::kQuota);
  Client one_too_many(rig.path());
  ExpectRefusal(one_too_many, Code::kResourceExhausted, reasons::kQuota);
}

TEST_CASE("a connection that says nothing is ended") {
  Rig rig([](attach::Options& options) { options.hello_timeout = std::chrono::milliseconds(1); });
  Client silent(rig.path());
  ExpectRefusal(silent, Code::kDeadlineExceeded, reasons::kDeadline);
}

TEST_CASE("a client that does not read loses its connection, others do not notice") {
  Rig rig;
  Client deaf(rig.path());
  const std::string token = deaf.Attach();
  // Each request is answered with an error; sooner or later no reply fits any more.
  while (os::SendPacket(deaf.fd(), Client::PassDescriptor().SerializeAsString()).code() !=
         Code::kUnavailable) {
    pollfd wait{deaf.fd(), POLLOUT | POLLRDHUP, 0};
    REQUIRE(::poll(&wait, 1, attach::kPatienceMs) == 1);
  }
  rig.WaitForClosed(1);
  CHECK(rig.Find(token).status().reason() == reasons::kNoSession);
  ExpectStillServing(rig);
}

TEST_CASE("the reply that ends a connection arrives although more was sent than was read") {
  Rig rig;
  Client client(rig.path());
  REQUIRE_OK(os::SendPacket(client.fd(), "garbage"));
  for (int i = 0; i < 20; ++i) {
    if (!os::SendPacket(client.fd(), "more of it").ok()) break;
  }
  const v1::AttachReply reply = client.Receive();
  CHECK(reply.has_error());
}

TEST_CASE("only what can hold memory is taken") {
  Rig rig;
  Client client(rig.path());
  client.Attach();
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const os::UniqueFd reader(ends[0]);
  const os::UniqueFd writer(ends[1]);
  const os::UniqueFd folder(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const os::UniqueFd path(::open("/tmp", O_PATH | O_CLOEXEC));
  const os::UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const os::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const os::UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  for (const auto& [fd, what] : {std::pair{reader.get(), "a pipe"},
                                 {folder.get(), "a directory"},
                                 {path.get(), "a directory"},
                                 {file.get(), "a file"},
                                 {socket.get(), "a socket"},
                                 {event.get(), "nothing that holds memory"}}) {
    INFO(what);
    client.SendFds(Client::PassDescriptor(), {fd});
    const Status refused = FromProto(client.Receive().error());
    CHECK(refused.reason() == reasons::kBadHandle);
    CHECK(refused.message().find(what) != std::string::npos);
  }
}

TEST_CASE("descriptors that take long to close hold up nobody but who passed them") {
  Rig rig;
  // What is closed last waits until its bytes have gone, and the far end does not read.
  auto listener = os::ListenTcp({"127.0.0.1", 0}, 1);
  REQUIRE_OK(listener);
  auto connected = os::ConnectTcp(*os::LocalAddress(listener->get()));
  REQUIRE_OK(connected);
  os::UniqueFd slow = std::move(*connected);
  pollfd wait{listener->get(), POLLIN, 0};
  REQUIRE(::poll(&wait, 1, attach::kPatienceMs) == 1);
  os::UniqueFd far(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(far);
  wait = {slow.get(), POLLOUT, 0};
  REQUIRE(::poll(&wait, 1, attach::kPatienceMs) == 1);
  const std::string bytes(1 << 20, 'x');
  while (::send(slow.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  const linger patient{.l_onoff = 1, .l_linger = 600};
  REQUIRE(::setsockopt(slow.get(), SOL_SOCKET, SO_LINGER, &patient, sizeof patient) == 0);

  Client passer(rig.path());
  passer.Attach();
  Client leaver(rig.path());
  leaver.Attach();
  {
    // One that is refused, one among too many, and one that nobody reads any more.
    passer.SendFds(Client::PassDescriptor(), {slow.get()});
    leaver.SendFds(Client::Hello(), {slow.get()});
  }
  // The server's should be the last close; should this be, it waits on a thread of its own.
  std::thread closing([slow = std::move(slow)]() mutable { slow.Reset(); });
  // Everything else is served, on the thread of the server and on the engine's.
  Client other(rig.path());
  const std::string token = other.Attach();
  const os::UniqueFd fd = SomeFd();
  other.SendFds(Client::PassDescriptor(), {fd.get()});
  REQUIRE(other.Receive().has_passed());
  CHECK(rig.Find(token).ok());
  other.Close();
  // It is closed once its far end goes, and only then the one that passed it is answered.
  far.Reset();
  closing.join();
  CHECK(FromProto(passer.Receive().error()).reason() == reasons::kBadHandle);
}
