// What the token of somebody's session is worth to somebody else.
#include <grp.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "onecopy/v1/attach.pb.h"
#include "onecopy/v1/buffer.grpc.pb.h"
#include "tests/cluster/users.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "transport/os/sockets/unix_socket.h"

namespace token_test {
namespace {

namespace v1 = onecopy::v1;
using onecopy::os::UniqueFd;
using namespace onecopy::testing;

// A process of that user that attaches, and tells its token.
class Attached {
 public:
  Attached(const Node& node, uid_t uid) {
    std::array<int, 2> pipe{};
    REQUIRE(::pipe(pipe.data()) == 0);
    const UniqueFd from(pipe[0]);
    UniqueFd to(pipe[1]);
    v1::AttachRequest hello;
    hello.mutable_hello()->set_protocol_min(1);
    hello.mutable_hello()->set_protocol_max(1);
    hello.mutable_hello()->set_client("token_test");
    const std::string packet = hello.SerializeAsString();
    const std::string path = node.run_dir() + "/attach.sock";
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) Live(uid, path, packet, to.get());
    to.Reset();
    std::array<char, 4096> reply{};
    const ssize_t got = ::read(from.get(), reply.data(), reply.size());
    REQUIRE(got > 0);
    v1::AttachReply parsed;
    REQUIRE(parsed.ParseFromArray(reply.data(), static_cast<int>(got)));
    INFO(parsed.ShortDebugString());
    REQUIRE(parsed.has_welcome());
    token = parsed.welcome().token();
  }
  ~Attached() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  std::string token;

 private:
  [[noreturn]] static void Live(uid_t uid, const std::string& path, const std::string& packet,
                                int tell) {
    if (uid != 0 && (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0)) {
      ::_exit(126);
    }
    const auto socket = onecopy::os::ConnectUnix(path, SOCK_SEQPACKET);
    if (!socket.ok()) ::_exit(125);
    std::array<char, 4096> reply{};
    pollfd waiting{socket->get(), POLLIN, 0};
    if (::send(socket->get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0 ||
        ::poll(&waiting, 1, 60'000) != 1) {
      ::_exit(124);
    }
    const ssize_t got = ::recv(socket->get(), reply.data(), reply.size(), 0);
    if (got <= 0 || ::write(tell, reply.data(), static_cast<size_t>(got)) != got) ::_exit(123);
    while (true) ::pause();
  }

  pid_t pid_ = 0;
};

// Lists buffers over api.sock, as this process's user.
grpc::Status List(const Node& node, const std::string& token, v1::ListBuffersResponse* response) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto api = v1::BufferService::NewStub(grpc::CreateCustomChannel(
      "unix:" + node.run_dir() + "/api.sock", grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.AddMetadata("onecopy-session", token);
  return api->ListBuffers(&context, {}, response);
}

}  // namespace

TEST_CASE("a token of another user's session opens nothing, not even to root") {
  REQUIRE_ROOT();
  Node east("east");
  OpenTo(east);
  const Kept kept(east);
  const Attached mine(east, ::geteuid());
  const Attached theirs(east, kOther);
  v1::ListBuffersResponse response;
  const grpc::Status own = List(east, mine.token, &response);
  INFO(own.error_message());
  REQUIRE(own.ok());
  CHECK(response.buffers_size() == 1);
  for (int i = 0; i < 3; ++i) {
    v1::ListBuffersResponse nothing;
    const grpc::Status refused = List(east, theirs.token, &nothing);
    CHECK(refused.error_code() == grpc::StatusCode::UNAUTHENTICATED);
    CHECK(nothing.buffers_size() == 0);
  }
  // Nor does a connection that has shown its own token lend its right to another's.
  const auto channel = grpc::CreateChannel("unix:" + east.run_dir() + "/api.sock",
                                           grpc::InsecureChannelCredentials());
  const auto api = v1::BufferService::NewStub(channel);
  for (const auto& [token, right] : {std::pair{mine.token, true}, {theirs.token, false}}) {
    grpc::ClientContext context;
    context.AddMetadata("onecopy-session", token);
    v1::ListBuffersResponse again;
    CHECK(api->ListBuffers(&context, {}, &again).ok() == right);
  }
  // The other user's own programs work, with root's connections beside theirs.
  CHECK(CommandAs(kOther, east, {"buffer", "ls"}).empty());
  kept.CheckUnchanged();
}
}  // namespace token_test
