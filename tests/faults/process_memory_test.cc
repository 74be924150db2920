// Clients whose ordinary memory is a buffer, and who are killed, stopped, or hostile: their own
// transfers fail, and nothing else.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "onecopy/v1/attach.pb.h"
#include "onecopy/v1/buffer.grpc.pb.h"
#include "proto/codec/protocol.h"
#include "proto/codec/status_codec.h"
#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "transport/orders/client_end.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/sockets/unix_socket.h"

namespace process_memory_test {
namespace {

using onecopy::Client;
using onecopy::Code;
using onecopy::Status;
using onecopy::TransferInfo;
using onecopy::TransferState;
using onecopy::os::UniqueFd;
using namespace onecopy::testing;
namespace v1 = onecopy::v1;
namespace orders = onecopy::orders;
namespace os = onecopy::os;

constexpr uint64_t kLarge = uint64_t{192} << 20;
constexpr int kPatienceMs = 20'000;
constexpr char kImpatient[] = "[process]\nclient_timeout = \"1s\"\n";

// The program of registrar.cc with an array, each byte 'Z'. It ends with the test at the latest.
class Owner {
 public:
  Owner(const Node& node, const std::string& name, uint64_t bytes) {
    const std::string fifo = folder_ / "in";
    if (::mkfifo(fifo.c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
    held_open_ = UniqueFd(::open(fifo.c_str(), O_RDWR | O_CLOEXEC));
    process_ = std::make_unique<Process>(
        ProcessOptions{.program = (ProgramFolder() / "support" / "registrar").string(),
                       .arguments = {node.run_dir(), name, std::to_string(bytes), "array"},
                       .input_file = fifo,
                       .error_file = folder_ / "err"});
    const std::string ready = process_->ReadLine();
    if (ready.rfind("ready", 0) != 0) {
      throw std::runtime_error("registrar: " + ready + ReadFile(folder_ / "err"));
    }
  }
  ~Owner() { process_->Signal(SIGCONT); }

  void Kill() {
    process_->Signal(SIGKILL);
    CHECK(process_->Wait() == 1000 + SIGKILL);
  }
  void Stop() { process_->Signal(SIGSTOP); }
  void Continue() { process_->Signal(SIGCONT); }

 private:
  TempFolder folder_;
  UniqueFd held_open_;
  std::unique_ptr<Process> process_;
};

void Create(const Node& node, const std::string& name, uint64_t bytes) {
  node.Do({"buffer", "create", name, "--size", std::to_string(bytes), "--memory", "host"});
}

Status RunOne(Client& client, const std::string& from_node, const std::string& from,
              const std::string& to_node, const std::string& to) {
  auto done = client.RunTransfer(
      {.source = {from_node, from, {}, {}}, .destination = {to_node, to, {}, {}}});
  return done.ok() ? OutcomeOf(*done) : done.status();
}

// A client that has a slab and a buffer "hostile" of its own memory, and does with them what a
// library would not.
class Hostile {
 public:
  Hostile(const Node& node, uint64_t bytes) {
    auto attach = os::ConnectUnix(node.run_dir() + "/attach.sock", SOCK_SEQPACKET);
    REQUIRE_OK(attach);
    attach_ = std::move(*attach);
    v1::AttachRequest hello;
    hello.mutable_hello()->set_protocol_min(onecopy::kClientProtocolMin);
    hello.mutable_hello()->set_protocol_max(onecopy::kClientProtocolMax);
    const v1::AttachReply welcome = Ask(hello);
    REQUIRE(welcome.welcome().slab_layout() == orders::kLayout);
    v1::AttachRequest open;
    open.mutable_open_slab();
    static_cast<void>(Ask(open));  // as if its descriptors had not come
    std::vector<UniqueFd> fds;
    const v1::AttachReply slab = Ask(open, &fds);
    REQUIRE(fds.size() == 3);
    slab_fd_ = std::move(fds[0]);
    socket_ = std::move(fds[2]);
    auto mapped = os::MapShared(slab_fd_.get(), slab.slab().bytes());
    REQUIRE_OK(mapped);
    slab_ = std::move(*mapped);
    auto orders = os::MapShared(fds[1].get(), sizeof(orders::Shared));
    REQUIRE_OK(orders);
    orders_ = std::move(*orders);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto api = v1::BufferService::NewStub(grpc::CreateCustomChannel(
        "unix:" + node.run_dir() + "/api.sock", grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    context.AddMetadata("onecopy-session", welcome.welcome().token());
    v1::RegisterBufferRequest request;
    request.set_request_id("hostile");
    request.set_name("hostile");
    request.set_bytes(bytes);
    request.mutable_process()->set_region(1);
    v1::Buffer buffer;
    const grpc::Status registered = api->RegisterBuffer(&context, request, &buffer);
    INFO(registered.error_message());
    REQUIRE(registered.ok());
  }

  orders::Shared& shared() { return *reinterpret_cast<orders::Shared*>(orders_.data()); }
  const os::Mapping& slab() const { return slab_; }
  int slab_fd() const { return slab_fd_.get(); }
  void Wake() const {
    const char bytes[64] = {};
    static_cast<void>(!::send(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  // Why it gets no other slab now.
  std::string WhyNoOther() {
    v1::AttachRequest open;
    open.mutable_open_slab();
    const v1::AttachReply reply = Exchange(open);
    return reply.has_error() ? onecopy::FromProto(reply.error()).reason() : "";
  }
  void CloseSocket() { socket_.Reset(); }
  void CloseSession() { attach_.Reset(); }
  // Says of everything that it was copied.
  void ClaimAll() {
    orders::Shared& all = shared();
    const uint64_t ordered = all.ordered.load();
    for (uint64_t i = 0; i < orders::kOrders && i < ordered; ++i) {
      const uint64_t number = ordered - 1 - i;
      all.answers[number % orders::kOrders].store(
          orders::AnswerWord(number, orders::Outcome::kCopied));
    }
    Wake();
  }

 private:
  v1::AttachReply Ask(const v1::AttachRequest& request, std::vector<UniqueFd>* fds = nullptr) {
    v1::AttachReply reply = Exchange(request, fds);
    INFO(reply.DebugString());
    REQUIRE_FALSE(reply.has_error());
    return reply;
  }
  v1::AttachReply Exchange(const v1::AttachRequest& request, std::vector<UniqueFd>* fds = nullptr) {
    REQUIRE_OK(os::SendPacket(attach_.get(), request.SerializeAsString()));
    pollfd wait{attach_.get(), POLLIN, 0};
    REQUIRE(::poll(&wait, 1, kPatienceMs) == 1);
    auto packet = os::ReceivePacket(attach_.get(), onecopy::kMaxAttachBytes);
    REQUIRE_OK(packet);
    REQUIRE(packet->has_value());
    v1::AttachReply reply;
    REQUIRE(reply.ParseFromString((*packet)->bytes));
    if (fds != nullptr) *fds = std::move((*packet)->fds);
    return reply;
  }

  UniqueFd attach_;
  UniqueFd slab_fd_;
  UniqueFd socket_;
  os::Mapping slab_;
  os::Mapping orders_;
};

}  // namespace

TEST_CASE("a transfer of an array whose owner is killed fails with OWNER_DIED, at either end") {
  const bool source = GENERATE(true, false);
  CAPTURE(source);
  Survivors with;
  const uint64_t bytes = kLarge;
  auto owner = std::make_unique<Owner>(with.east, "theirs", bytes);
  Create(with.west, "b", bytes);
  Client client = with.east.Connect();
  onecopy::TransferRequest request{.source = {"east", "theirs", {}, {}},
                                   .destination = {"west", "b", {}, {}}};
  if (!source) std::swap(request.source, request.destination);
  owner->Stop();  // so that it cannot have ended before
  const TransferInfo started = Must(client.StartTransfer(request));
  SeeRunning(client, started.id);
  owner->Kill();
  const TransferInfo ended = Must(client.AwaitTransfer(started.id));
  CheckFailed(ended.error, Code::kAborted, "OWNER_DIED");
  with.Check();
}

TEST_CASE("a transfer of an array whose owner is stopped fails in time, and later ones do not") {
  const bool out = GENERATE(true, false);
  CAPTURE(out);
  Survivors with(kImpatient);
  Owner owner(with.east, "theirs", kLarge);
  Create(with.west, "b", kLarge);
  Create(with.east, "a", kLarge);
  Client client = with.east.Connect();
  std::vector<char> mine(kLarge, 'm');
  Must(client.RegisterMemory("mine", mine.data(), mine.size()));
  const auto run = [&] {
    return out ? RunOne(client, "", "theirs", "west", "b")
               : RunOne(client, "west", "b", "", "theirs");
  };
  REQUIRE_OK(run());
  owner.Stop();
  CheckFailed(run(), Code::kDeadlineExceeded, "STALLED");
  CheckFailed(RunOne(client, "", "theirs", "", "a"), Code::kDeadlineExceeded, "STALLED");
  CheckFailed(client.SumBuffer({"", "theirs", {}, {}}).status(), Code::kDeadlineExceeded,
              "STALLED");
  // Other clients' arrays go on meanwhile.
  REQUIRE_OK(RunOne(client, "", "mine", "west", "b"));
  with.Check();
  owner.Continue();
  // Once it has answered for what was given up.
  WaitUntil("its copies begin again", [&] { return run().ok(); });
  REQUIRE_OK(run());
  Must(client.DeleteBuffer("mine"));
  with.Check();
}

TEST_CASE("whatever a client does to its orders and its slab, it does to itself") {
  Survivors with(kImpatient);
  const uint64_t bytes = uint64_t{48} << 20;
  Hostile hostile(with.east, bytes);
  CHECK(hostile.WhyNoOther() == "NAME_TAKEN");
  Create(with.west, "b", bytes);
  Create(with.east, "a", bytes);
  Client client = with.east.Connect();
  std::vector<char> mine(bytes, 'm');
  Must(client.RegisterMemory("mine", mine.data(), mine.size()));
  std::atomic<bool> stop{false};
  std::thread attacker;
  SECTION("nonsense everywhere, all the time") {
    attacker = std::thread([&] {
      std::mt19937_64 random(7);
      auto* const words = reinterpret_cast<std::atomic<uint64_t>*>(&hostile.shared());
      constexpr size_t kWords = sizeof(orders::Shared) / sizeof(uint64_t);
      while (!stop) {
        for (int i = 0; i < 1000; ++i) words[random() % kWords].store(random());
        std::memset(hostile.slab().data() + random() % (hostile.slab().bytes() - 4096),
                    static_cast<int>(random()), 4096);
        hostile.Wake();
        std::this_thread::yield();
      }
    });
  }
  SECTION("claims that all is copied, and a slab full of holes") {
    attacker = std::thread([&] {
      while (!stop) {
        hostile.ClaimAll();
        (void)::fallocate(hostile.slab_fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                          static_cast<off_t>(hostile.slab().bytes()));
        std::this_thread::yield();
      }
    });
  }
  SECTION("silence") {}
  SECTION("no socket any more") { hostile.CloseSocket(); }
  SECTION("no session any more") { hostile.CloseSession(); }
  // However these end, they do.
  for (int i = 0; i < 2; ++i) {
    (void)RunOne(client, "", "hostile", "west", "b");
    (void)RunOne(client, "west", "b", "", "hostile");
    (void)RunOne(client, "", "a", "", "hostile");
    (void)RunOne(client, "", "hostile", "", "mine");
    (void)client.SumBuffer({"", "hostile", {}, {}});
  }
  std::fill(mine.begin(), mine.end(), 'm');
  REQUIRE_OK(RunOne(client, "", "mine", "west", "b"));
  CHECK(Contents(with.west, "b") == std::string(bytes, 'm'));
  stop = true;
  if (attacker.joinable()) attacker.join();
  with.Check();
}

TEST_CASE("a daemon that ends leaves the owners of arrays alone, who hear of it") {
  auto east = std::make_unique<Node>("east");
  std::vector<char> mine(100'000, 'm');
  auto client = std::make_unique<Client>(east->Connect());
  Must(client->RegisterMemory("mine", mine.data(), mine.size()));
  east->Kill();
  const Status gone = client->RegisterMemory("more", mine.data(), 10).status();
  CheckFailed(gone, Code::kUnavailable, "DAEMON_UNREACHABLE");
  client.reset();  // its threads end
  east->Restart();
  CheckServes(*east);
}
}  // namespace process_memory_test
