#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <barrier>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "client/lib/attach/attach.h"
#include "client/lib/session/connection.h"
#include "client/lib/session/registered_memory.h"
#include "onecopy/client.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/attach.pb.h"
#include "proto/codec/protocol.h"
#include "proto/codec/status_codec.h"
#include "tests/support/catch.h"
#include "tests/support/served_cluster.h"
#include "tests/unit/client/client_fixture.h"
#include "tests/unit/client/temp_dir.h"
#include "transport/os/mapping.h"
#include "transport/os/unix_socket.h"

namespace attach_test {
using onecopy::Client;
using onecopy::Code;
using onecopy::ConnectOptions;
using onecopy::Status;
using onecopy::client::CallLimit;
using onecopy::client::Connection;
using onecopy::client::Session;
using onecopy::testing::ServedCluster;
using onecopy::testing::TempDir;

namespace os = onecopy::os;
namespace v1 = onecopy::v1;

namespace {

Status ConnectError(const std::string& run_dir) {
  ConnectOptions options;
  options.run_dir = run_dir;
  options.program = "test 1.0";
  options.timeout = std::chrono::milliseconds(200);
  return Client::Connect(options).status();
}

// A listener of its own at attach.sock.
os::UniqueFd Listen(const TempDir& dir, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, (dir / "attach.sock").c_str());
  os::UniqueFd listener(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 8) == 0);
  return listener;
}

// What a client is told that says Hello to somebody who gives this answer; `heard` is what it said.
Status ErrorOf(const TempDir& dir, const std::string& answer, std::string* heard = nullptr) {
  const os::UniqueFd listener = Listen(dir, SOCK_SEQPACKET);
  std::thread server([&] {
    const os::UniqueFd connection(::accept(listener.get(), nullptr, nullptr));
    char packet[4096];
    const ssize_t count = ::recv(connection.get(), packet, sizeof packet, 0);
    if (heard != nullptr && count > 0) heard->assign(packet, static_cast<size_t>(count));
    if (!answer.empty()) ::send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  });
  const Status status = ConnectError(dir.path());
  server.join();
  return status;
}

}  // namespace

TEST_CASE("a daemon whose run directory another user could have made is not talked to") {
  const TempDir dir;
  const ServedCluster daemon(dir.path());
  REQUIRE_OK(Client::Connect({.run_dir = dir.path()}));
  const std::string shared = dir / "shared";
  std::filesystem::create_directories(shared);
  std::filesystem::create_directory_symlink(dir.path(), shared + "/run");
  REQUIRE(::chmod(shared.c_str(), 0777) == 0);
  const Status refused = ConnectError(shared + "/run");
  CHECK(refused.reason() == onecopy::reasons::kAccessDenied);
  CHECK(refused.remedy().find("--run-dir") != std::string::npos);
  REQUIRE(::chmod(shared.c_str(), 01777) == 0);
  REQUIRE_OK(Client::Connect({.run_dir = shared + "/run"}));
  if (::geteuid() != 0) ONECOPY_SKIP("only root can give a link away");
  REQUIRE(::lchown((shared + "/run").c_str(), 4711, 4711) == 0);
  CHECK(ConnectError(shared + "/run").reason() == onecopy::reasons::kAccessDenied);
}

TEST_CASE("a client learns its node, the daemon's version, and introduces itself") {
  const TempDir dir;
  {
    const ServedCluster daemon(dir.path());
    auto client = Client::Connect({.run_dir = dir.path()});
    REQUIRE_OK(client);
    CHECK(client->node() == "east");
    CHECK(client->daemon_version() == "9.9.9");
    CHECK(client->run_dir() == dir.path());
  }
  std::string heard;
  static_cast<void>(ErrorOf(dir, "", &heard));
  v1::AttachRequest said;
  REQUIRE(said.ParseFromString(heard));
  CHECK(said.hello().client() == "test 1.0");
  CHECK(said.hello().protocol_min() == onecopy::kClientProtocolMin);
  CHECK(said.hello().protocol_max() == onecopy::kClientProtocolMax);
}

TEST_CASE("a run directory may have characters that mean something in a URI") {
  const TempDir dir;
  const std::string odd = dir / "a b%20c#d?e";
  std::filesystem::create_directory(odd);
  const ServedCluster daemon(odd);
  auto client = Client::Connect({.run_dir = odd});
  REQUIRE_OK(client);
  REQUIRE_OK(client->ListNodes());
}

TEST_CASE("without a daemon the client says where it looked and how to start one") {
  const TempDir dir;
  const Status status = ConnectError(dir.path());
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(status.message().find(dir.path()) != std::string::npos);
  CHECK(status.remedy().find("onecopyd") != std::string::npos);
  CHECK(ConnectError(dir / "missing").reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a socket that a dead daemon left behind is told apart from none") {
  const TempDir dir;
  Listen(dir, SOCK_SEQPACKET);  // closed at once
  const Status status = ConnectError(dir.path());
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(status.message().find("left it behind") != std::string::npos);
}

TEST_CASE("something else at attach.sock is no daemon") {
  const TempDir dir;
  const os::UniqueFd stream = Listen(dir, SOCK_STREAM);
  CHECK(ConnectError(dir.path()).reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a daemon that does not answer is given up") {
  const TempDir dir;
  const os::UniqueFd silent = Listen(dir, SOCK_SEQPACKET);
  const Status status = ConnectError(dir.path());
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.message().find("does not answer") != std::string::npos);
}

TEST_CASE("a daemon that answers garbage, nothing known, or hangs up is given up") {
  const TempDir dir;
  const std::string answer =
      GENERATE(std::string("\xff\xff garbage"), std::string("\x00", 1) + "x", std::string());
  const Status status = ErrorOf(dir, answer);
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a daemon's refusal to attach is passed on") {
  const TempDir dir;
  v1::AttachReply refusal;
  *refusal.mutable_error() = onecopy::ToProto(
      Status(Code::kResourceExhausted, onecopy::reasons::kQuota, "too many clients", "end some"));
  const Status status = ErrorOf(dir, refusal.SerializeAsString());
  CHECK(status.code() == Code::kResourceExhausted);
  CHECK(status.message() == "too many clients");
  CHECK(status.remedy() == "end some");
}

TEST_CASE("a protocol version outside the client's range is refused by name") {
  const TempDir dir;
  v1::AttachReply welcome;
  const uint32_t protocol = GENERATE(0U, onecopy::kClientProtocolMax + 1);
  welcome.mutable_welcome()->set_protocol(protocol);
  const Status status = ErrorOf(dir, welcome.SerializeAsString());
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kPeerIncompatible);
  CHECK(status.message().find("protocol " + std::to_string(protocol)) != std::string::npos);
}

TEST_CASE("a path too long for a socket is refused before connecting") {
  const Status status = ConnectError("/" + std::string(200, 'x'));
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.remedy().find("shorter") != std::string::npos);
}

TEST_CASE("a run directory without access is a matter of permission") {
  const TempDir dir;
  const ServedCluster daemon(dir.path());
  REQUIRE(::chmod((dir / "attach.sock").c_str(), 0) == 0);
  const onecopy::testing::AsOrdinaryUser user(dir.path());
  CHECK(ConnectError(dir.path()).code() == Code::kPermissionDenied);
}

TEST_CASE("a daemon without api.sock attaches, and its calls fail as unreachable") {
  const TempDir dir;
  ServedCluster daemon(dir.path());
  daemon.StopApi();
  auto client = Client::Connect({.run_dir = dir.path()});
  REQUIRE_OK(client);
  const Status status = client->ListNodes().status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(status.message().find(dir.path()) != std::string::npos);
}

TEST_CASE("the session ends with the last object that needs it") {
  const TempDir dir;
  ServedCluster daemon(dir.path());
  {
    std::optional<onecopy::HostBuffer> kept;
    {
      auto client = Client::Connect({.run_dir = dir.path()});
      REQUIRE_OK(client);
      auto buffer = client->CreateHostBuffer("window", 4096);
      REQUIRE_OK(buffer);
      kept.emplace(std::move(*buffer));
    }
    CHECK(daemon.buffers().size() == 1);
    std::memset(kept->data(), 1, kept->bytes());  // the memory is there, too
  }
  daemon.AwaitBuffers(0);
}

TEST_CASE("after the daemon has gone every call says so") {
  const TempDir dir;
  auto daemon = std::make_unique<ServedCluster>(dir.path());
  auto client = Client::Connect({.run_dir = dir.path()});
  REQUIRE_OK(client);
  REQUIRE_OK(client->ListBuffers());
  daemon.reset();
  CHECK(client->ListBuffers().status().reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(client->CreateHostBuffer("x", 1).status().reason() == onecopy::reasons::kDaemonUnreachable);
}
namespace {

// A client whose daemon has ended, and a stranger at its socket, who takes connections and is
// silent.
struct Deserted {
  explicit Deserted(std::chrono::milliseconds timeout) {
    std::optional<ServedCluster> daemon(dir.path());
    client.emplace(onecopy::testing::ConnectTo(dir.path(), {.timeout = timeout}));
    daemon.reset();
    ::unlink((dir / "attach.sock").c_str());
    stranger = Listen(dir, SOCK_SEQPACKET);
  }

  // How many have connected to the stranger since the last call.
  size_t TakeConnections() const {
    REQUIRE(::fcntl(stranger.get(), F_SETFL, O_NONBLOCK) == 0);
    size_t count = 0;
    while (os::UniqueFd(::accept(stranger.get(), nullptr, nullptr))) ++count;
    return count;
  }

  TempDir dir;
  std::optional<Client> client;
  os::UniqueFd stranger;
};

}  // namespace

TEST_CASE("threads that find their daemon gone together attach once, and not one by one") {
  constexpr int kThreads = 8;
  Deserted deserted{std::chrono::seconds(2)};
  std::barrier begin(kThreads);
  std::vector<std::future<Status>> calls;
  for (int i = 0; i < kThreads; ++i) {
    calls.push_back(std::async(std::launch::async, [&] {
      begin.arrive_and_wait();
      return deserted.client->Ping();
    }));
  }
  for (std::future<Status>& call : calls) {
    CHECK(call.get().reason() == onecopy::reasons::kDaemonUnreachable);
  }
  const size_t attached = deserted.TakeConnections();
  CHECK(attached >= 1);
  CHECK(attached < kThreads / 2);
}

TEST_CASE("a thread with a deadline does not wait longer for another one that attaches") {
  Deserted deserted{std::chrono::minutes(10)};
  auto patient = std::async(std::launch::async, [&] { return deserted.client->Ping(); });
  os::UniqueFd attaching(::accept(deserted.stranger.get(), nullptr, nullptr));
  REQUIRE(attaching);
  const onecopy::TransferRequest request{
      .source = {"", "a"}, .destination = {"", "b"}, .deadline = std::chrono::milliseconds(1)};
  const Status late = deserted.client->StartTransfer(request).status();
  CHECK(late.code() == Code::kDeadlineExceeded);
  CHECK_FALSE(late.remedy().empty());
  CHECK(patient.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  deserted.stranger.Reset();
  attaching.Reset();
  CHECK(patient.get().reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a question about a transfer that no daemon hears is not said to have been asked") {
  Deserted deserted{std::chrono::seconds(2)};
  deserted.stranger.Reset();
  const Status unheard = deserted.client->GetTransfer(onecopy::TransferId("7")).status();
  CHECK(unheard.reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("memory that is closed while its client attaches again is ended in the next session") {
  const TempDir dir;
  ServedCluster daemon(dir.path());
  const ConnectOptions options{.run_dir = dir.path()};
  const auto connection = onecopy::client::Connection::Open(options);
  REQUIRE_OK(connection);
  const auto run_dir =
      onecopy::client::FindRunDir(onecopy::client::RunDirHints::FromEnvironment(dir.path()));
  const auto next = onecopy::client::Session::Open(run_dir, options, 2);
  REQUIRE_OK(next);
  auto fd = os::SealedMemfd("memory", 4096);
  REQUIRE_OK(fd);
  auto mapping = os::MapShared(fd->get(), 4096);
  REQUIRE_OK(mapping);
  onecopy::client::HostMemory memory(std::move(*fd), std::move(*mapping), "memory");
  // As by a thread that attaches, whose session the connection does not have yet.
  REQUIRE_OK(memory.Register(**next));
  daemon.AwaitBuffers(1);
  onecopy::BufferInfo last;
  REQUIRE_OK(onecopy::client::EndRegistration(**connection, memory, &last));
  CHECK(last.name == "memory");
  CHECK(daemon.buffers().empty());
}

namespace {

// Memory whose registrations the test looks at before they are made, and, once they have been,
// before they are told.
class WatchedMemory final : public onecopy::client::RegisteredMemory {
 public:
  using Before = std::function<Status(Session& session)>;
  using After = std::function<Status()>;
  WatchedMemory(const std::string& name, Before before, After after = onecopy::OkStatus)
      : RegisteredMemory(name, kBytes), before_(std::move(before)), after_(std::move(after)) {}

 private:
  static constexpr uint64_t kBytes = 4096;

  onecopy::Result<onecopy::BufferInfo> RegisterAs(Session& session,
                                                  v1::RegisterBufferRequest request) override {
    ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd fd, os::SealedMemfd("memory", kBytes));
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t handle, session.attach().PassDescriptor(fd.get()));
    request.mutable_memfd()->set_fd_handle(handle);
    ONECOPY_RETURN_IF_ERROR(before_(session));
    onecopy::Result<onecopy::BufferInfo> made = RegisterIn(session, std::move(request));
    ONECOPY_RETURN_IF_ERROR(after_());
    return made;
  }

  const Before before_;
  const After after_;
};

// Holds the thread of east's engine until it is destroyed.
class HeldEngine {
 public:
  explicit HeldEngine(ServedCluster& daemon) {
    daemon.cluster()["east"].engine().loop().Post(
        [ends = release_.get_future().share()] { ends.wait(); });
  }
  ~HeldEngine() { release_.set_value(); }

 private:
  std::promise<void> release_;
};

CallLimit::Time Soon(std::chrono::milliseconds in = std::chrono::milliseconds(50)) {
  return CallLimit::Clock::now() + in;
}

}  // namespace

TEST_CASE("a registration that was not answered in time is not lost to its name") {
  const TempDir dir;
  ServedCluster daemon(dir.path());
  const auto connection = Connection::Open({.run_dir = dir.path()});
  REQUIRE_OK(connection);
  std::optional<HeldEngine> held;
  std::optional<CallLimit> limit;
  bool first = true;
  std::chrono::milliseconds longest(50);
  WatchedMemory memory("memory", [&](Session& /*session*/) {
    if (std::exchange(first, false)) {
      held.emplace(daemon);
      limit.emplace(Soon(longest));
    }
    return onecopy::OkStatus();
  });
  const auto session = (*connection)->Current();
  REQUIRE_OK(session);
  // A busy machine may not even send the call in time: then it needs longer.
  do {
    first = true;
    CHECK(memory.Register(**session).status().code() == Code::kDeadlineExceeded);
    limit.reset();
    held.reset();
    longest *= 2;
  } while (daemon.buffers().empty());
  SECTION("it is registered by the next try") {
    const auto again = memory.Register(**session);
    REQUIRE_OK(again);
    CHECK(daemon.buffers().at(0).id == again->id);
  }
  SECTION("it ends with the memory") {
    onecopy::BufferInfo last;
    REQUIRE_OK(EndRegistration(**connection, memory, &last));
    CHECK(daemon.buffers().empty());
  }
}

TEST_CASE("the end of many unanswered registrations takes no longer than that of one") {
  const TempDir dir;
  ServedCluster daemon(dir.path());
  const auto connection = Connection::Open({.run_dir = dir.path()});
  REQUIRE_OK(connection);
  const auto session = (*connection)->Current();
  REQUIRE_OK(session);
  std::vector<std::chrono::milliseconds> given;  // to each question
  const auto unanswered = [&] {
    auto memory = std::make_unique<WatchedMemory>("", [&](Session& /*session*/) {
      given.push_back(CallLimit::Left().value_or(std::chrono::hours(1)));
      return Status(Code::kDeadlineExceeded, onecopy::reasons::kDeadline, "too late");
    });
    CHECK(memory->Register(**session).status().code() == Code::kDeadlineExceeded);
    given.clear();
    return memory;
  };
  std::vector<std::unique_ptr<WatchedMemory>> memories;
  for (int i = 0; i < 5; ++i) memories.push_back(unanswered());
  onecopy::BufferInfo last;
  for (const auto& memory : memories) REQUIRE_OK(EndRegistration(**connection, *memory, &last));
  REQUIRE(given.size() == memories.size());
  CHECK(std::accumulate(given.begin(), given.end(), std::chrono::milliseconds(0)) <=
        onecopy::client::kTeardown + std::chrono::seconds(1));

  // Once the daemon has answered, its answer is waited for again.
  const auto one_more = unanswered();
  REQUIRE_OK((*session)->Call(&v1::BufferService::Stub::ListBuffers, v1::ListBuffersRequest(),
                              onecopy::client::Patience::kQuick));
  REQUIRE_OK(EndRegistration(**connection, *one_more, &last));
  REQUIRE(given.size() == 1);
  CHECK(given[0] > std::chrono::seconds(1));
}

TEST_CASE("what a thread had no time to register again is registered by the next one") {
  const TempDir dir;
  std::optional<ServedCluster> daemon(dir.path());
  const auto connection = Connection::Open({.run_dir = dir.path()});
  REQUIRE_OK(connection);
  std::vector<std::shared_ptr<WatchedMemory>> memories;
  for (const char* name : {"a", "b", "c"}) {
    memories.push_back(std::make_shared<WatchedMemory>(name, [](Session& session) {
      if (session.number() == 1 || !CallLimit::Current()) return onecopy::OkStatus();
      std::this_thread::sleep_until(*CallLimit::Current());
      return Status(Code::kDeadlineExceeded, onecopy::reasons::kDeadline, "too late");
    }));
    REQUIRE_OK(RegisterFirst(**connection, memories.back()));
  }
  daemon.reset();
  daemon.emplace(dir.path());
  {
    const CallLimit limit(CallLimit::Clock::now() + std::chrono::seconds(2));
    REQUIRE_OK((*connection)->Current());
  }
  CHECK((*connection)->registrations().info().lost.size() == 3);
  REQUIRE_OK((*connection)->Current());
  const onecopy::SessionInfo info = (*connection)->registrations().info();
  CHECK(info.number == 2);
  CHECK(info.restored.size() == 3);
  CHECK(info.lost.empty());
  CHECK(daemon->buffers().size() == 3);
}

TEST_CASE("what a thread registers again while another one meets the next daemon is not left out") {
  const TempDir dir;
  std::optional<ServedCluster> daemon(dir.path());
  const auto connection = Connection::Open({.run_dir = dir.path()});
  REQUIRE_OK(connection);
  std::promise<void> in_hand;
  std::promise<void> go_on;
  const auto memory = std::make_shared<WatchedMemory>("memory", [&](Session& session) {
    if (session.number() != 2) return onecopy::OkStatus();
    if (CallLimit::Current()) {
      std::this_thread::sleep_until(*CallLimit::Current());
      return Status(Code::kDeadlineExceeded, onecopy::reasons::kDeadline, "too late");
    }
    in_hand.set_value();
    go_on.get_future().wait();
    return Status(Code::kUnavailable, onecopy::reasons::kDaemonUnreachable, "gone");
  });
  REQUIRE_OK(RegisterFirst(**connection, memory));
  daemon.reset();
  daemon.emplace(dir.path());
  {
    const CallLimit limit(CallLimit::Clock::now() + std::chrono::seconds(2));
    REQUIRE_OK((*connection)->Current());
  }
  auto first = std::async(std::launch::async, [&] { (void)(*connection)->Current(); });
  in_hand.get_future().wait();
  daemon.reset();
  daemon.emplace(dir.path());
  auto second = std::async(std::launch::async, [&] { return (*connection)->Current().status(); });
  while ((*connection)->registrations().info().number != 3) std::this_thread::yield();
  go_on.set_value();
  first.get();
  REQUIRE_OK(second.get());
  const onecopy::SessionInfo info = (*connection)->registrations().info();
  CHECK(info.lost.empty());
  CHECK(info.restored.size() == 1);
  CHECK(daemon->buffers().size() == 1);
}

TEST_CASE("memory whose first registration was not answered in time is not known afterwards") {
  const TempDir dir;
  ServedCluster daemon(dir.path());
  const auto connection = Connection::Open({.run_dir = dir.path()});
  REQUIRE_OK(connection);
  int asked = 0;
  const auto memory = std::make_shared<WatchedMemory>(
      "memory", [](Session& /*session*/) { return onecopy::OkStatus(); },
      [&asked] {
        if (++asked > 1) return onecopy::OkStatus();
        return Status(Code::kDeadlineExceeded, onecopy::reasons::kDeadline, "nothing was heard");
      });
  CHECK(RegisterFirst(**connection, memory).status().code() == Code::kDeadlineExceeded);
  CHECK(asked == 2);  // what it is called, to end it
  CHECK(memory->retired());
  CHECK(daemon.buffers().empty());
}

TEST_CASE("futures that find their daemon gone attach once between them") {
  constexpr size_t kFutures = 8;
  Deserted deserted{std::chrono::seconds(1)};
  std::vector<onecopy::TransferFuture> futures;
  for (size_t i = 0; i < kFutures; ++i) {
    auto future =
        deserted.client->RunTransferAsync({.source = {"", "a"}, .destination = {"", "b"}});
    REQUIRE_OK(future);
    futures.push_back(*std::move(future));
  }
  for (onecopy::TransferFuture& future : futures) {
    CHECK(future.Get().status().reason() == onecopy::reasons::kDaemonUnreachable);
  }
  const size_t attached = deserted.TakeConnections();
  CHECK(attached >= 1);
  CHECK(attached < kFutures / 2);
}

TEST_CASE("a daemon whose queue is full is told as one that has not answered by the deadline") {
  const TempDir dir;
  const os::UniqueFd listener = Listen(dir, SOCK_SEQPACKET);
  std::vector<os::UniqueFd> queue;
  for (auto next = os::ConnectUnix(dir / "attach.sock", SOCK_SEQPACKET); next.ok();
       next = os::ConnectUnix(dir / "attach.sock", SOCK_SEQPACKET)) {
    queue.push_back(*std::move(next));
  }
  const auto run_dir =
      onecopy::client::FindRunDir(onecopy::client::RunDirHints::FromEnvironment(dir.path()));
  const CallLimit limit(Soon());
  const Status late =
      onecopy::client::AttachSocket::Connect(run_dir, "test", std::chrono::minutes(1)).status();
  CHECK(late.code() == Code::kDeadlineExceeded);
  CHECK(late.reason() == onecopy::reasons::kDeadline);
}

}  // namespace attach_test
