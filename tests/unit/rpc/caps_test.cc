// How much of the servers anybody may take: streams, threads, requests that are not answered.
#include <grpcpp/generic/generic_stub.h>
#include <sys/socket.h>

#include <filesystem>

#include "daemon/engine/base/ledger.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "onecopy/reasons.h"
#include "tests/unit/rpc/peer_rig.h"
#include "tests/unit/rpc/samples.h"
#include "transport/os/sockets/unix_socket.h"

namespace caps_test {
using namespace onecopy;
using namespace onecopy::rpc;

namespace {

size_t Threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

engine::Ledger OfRequests(engine::Limit requests, size_t reserved_percent = 5) {
  engine::Limits limits;
  limits.requests = requests;
  limits.reserved_percent = reserved_percent;
  return {"east", limits};
}

// A stream of reflection's, begun and left open.
class Asking {
 public:
  explicit Asking(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(channel), context_(ApiRig::Context("")) {
    stream_ = stub_.PrepareCall(context_.get(), kMethod, &queue_);
    stream_->StartCall(&queue_);
    Next();
  }
  ~Asking() {
    context_->TryCancel();
    if (stream_ != nullptr) (void)Finish();
  }
  // How the server ended it: OK once it has nothing more to be asked.
  grpc::StatusCode End() {
    stream_->WritesDone(&queue_);
    Next();
    return Finish();
  }

 private:
  static constexpr char kMethod[] =
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

  void Next() {
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue_.Next(&tag, &ok));
  }
  grpc::StatusCode Finish() {
    grpc::Status status;
    stream_->Finish(&status, &queue_);
    Next();
    stream_.reset();
    return status.error_code();
  }

  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

Status GetNode(ApiRig& rig, const std::string& token) {
  v1::Node node;
  const auto context = ApiRig::Context(token);
  return FromGrpc(rig.nodes->GetNode(context.get(), {}, &node));
}

// GetNode calls that wait for their answers.
class Pending {
 public:
  Pending(ApiRig& rig, const std::string& token, const std::string& name = {})
      : context_(ApiRig::Context(token)) {
    v1::GetNodeRequest request;
    request.set_name(name);
    reader_ = rig.nodes->AsyncGetNode(context_.get(), request, &queue_);
    reader_->Finish(&node_, &status_, nullptr);
  }
  ~Pending() {
    if (done_) return;
    context_->TryCancel();
    (void)Await();
  }
  Status Await() {
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue_.Next(&tag, &ok));
    done_ = true;
    return FromGrpc(status_);
  }

 private:
  std::unique_ptr<grpc::ClientContext> context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::Node>> reader_;
  v1::Node node_;
  grpc::Status status_;
  bool done_ = false;
};

std::string Number(uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string Frame(char type, char flags, uint32_t stream, const std::string& payload) {
  return Number(static_cast<uint32_t>(payload.size()), 3) + type + flags + Number(stream, 4) +
         payload;
}

// A call of GetNode for this node, as it goes over the wire; its answer may be as long as it likes.
std::string RawGetNode(uint32_t stream, const std::string& token) {
  std::string headers;
  const auto add = [&](const std::string& name, const std::string& value) {
    headers += std::string(1, '\0') + static_cast<char>(name.size()) + name +
               static_cast<char>(value.size()) + value;
  };
  add(":method", "POST");
  add(":scheme", "http");
  add(":path", "/onecopy.v1.NodeService/GetNode");
  add(":authority", "east");
  add("content-type", "application/grpc");
  add("te", "trailers");
  add(kSessionMetadata, token);
  return Frame(1, 4, stream, headers) + Frame(0, 1, stream, std::string(5, '\0'));
}

// More than HTTP/2 lets a server send unasked, and than a socket holds.
NodeInfo LargeNode() {
  NodeInfo large = SampleNode();
  large.version = std::string(1 << 20, 'x');
  return large;
}

// A client that speaks HTTP/2 as badly as a test wants.
class RawClient {
 public:
  explicit RawClient(const std::string& path) {
    auto connected = os::ConnectUnix(path, SOCK_STREAM);
    REQUIRE_OK(connected);
    fd_ = std::move(*connected);
    REQUIRE(Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "")));
  }
  // False where the server has ended the connection.
  bool Send(const std::string& said) {
    for (size_t sent = 0; sent < said.size();) {
      const ssize_t some = ::send(fd_.get(), said.data() + sent, said.size() - sent, MSG_NOSIGNAL);
      if (some <= 0) return false;
      sent += static_cast<size_t>(some);
    }
    return true;
  }
  // Whatever has come.
  void Read() {
    std::string bytes(1 << 16, 0);
    while (::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
  }

 private:
  os::UniqueFd fd_;
};

}  // namespace

TEST_CASE("nobody may ask without a session what services there are, unless that is allowed") {
  const bool allowed = GENERATE(false, true);
  ApiRig rig([&](ApiServerOptions& options) { options.reflection = allowed; });
  ServingNode serving;
  CHECK(Asking(rig.channel).End() ==
        (allowed ? grpc::StatusCode::OK : grpc::StatusCode::UNIMPLEMENTED));
  CHECK(Asking(grpc::CreateChannel(serving.address(), grpc::InsecureChannelCredentials())).End() ==
        grpc::StatusCode::UNIMPLEMENTED);
}

TEST_CASE("who asks what services there are takes a bounded number of threads") {
  ApiRig rig([](ApiServerOptions& options) { options.reflection = true; });
  rig.engine.Run([&] { rig.api.script.AnswerWith(SampleNode()); });
  REQUIRE_OK(GetNode(rig, rig.token));
  const size_t before = Threads();
  std::vector<std::unique_ptr<Asking>> many;
  for (int i = 0; i < 500; ++i) many.push_back(std::make_unique<Asking>(rig.channel));
  // A call on the same connection comes after them.
  REQUIRE_OK(GetNode(rig, rig.token));
  CHECK(Threads() < before + 32);
}

TEST_CASE("so many may watch the health of a server, and all may ask for it") {
  ApiRig rig([](ApiServerOptions& options) { options.most_health_watches = 2; });
  const auto health = grpc::health::v1::Health::NewStub(rig.channel);
  grpc::health::v1::HealthCheckResponse response;
  const auto first_context = ApiRig::Context("");
  const auto first = health->Watch(first_context.get(), {});
  REQUIRE(first->Read(&response));
  const auto second_context = ApiRig::Context("");
  grpc::health::v1::HealthCheckRequest stranger;
  stranger.set_service("no.such.Service");
  const auto second = health->Watch(second_context.get(), stranger);
  REQUIRE(second->Read(&response));
  const auto watch_once = [&] {
    const auto context = ApiRig::Context("");
    const auto watch = health->Watch(context.get(), {});
    if (watch->Read(&response)) {
      context->TryCancel();
      (void)watch->Finish();
      return OkStatus();
    }
    return FromGrpc(watch->Finish());
  };
  const Status refused = watch_once();
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK(refused.reason() == reasons::kQuota);
  CHECK(refused.remedy().find("[limits] health_watches") != std::string::npos);
  const auto context = ApiRig::Context("");
  CHECK(health->Check(context.get(), {}, &response).ok());
  // One that ends makes room.
  first_context->TryCancel();
  (void)first->Finish();
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!watch_once().ok()) REQUIRE(std::chrono::steady_clock::now() < end);
  second_context->TryCancel();
  (void)second->Finish();
}

TEST_CASE("a user's requests that are not answered yet are counted, and leave room for others'") {
  ApiRig rig([](ApiServerOptions& options) {
    options.ledger = OfRequests({3, 6}, 30);  // 2 for administrators
  });
  const std::string other = rig.OpenSession(1001);
  const std::string root = rig.OpenSession(0);
  rig.engine.Run([&] {
    rig.api.script.AnswerWith(SampleNode());
    rig.api.script.Hold();
  });
  std::vector<std::unique_ptr<Pending>> waiting;
  const auto ask = [&](const std::string& token) {
    const size_t held = rig.engine.Get<size_t>([&] { return rig.api.script.held(); });
    waiting.push_back(std::make_unique<Pending>(rig, token));
    rig.engine.Await([&] { return rig.api.script.held() == held + 1; });
  };
  for (int i = 0; i < 3; ++i) ask(rig.token);
  const Status each = GetNode(rig, rig.token);
  CHECK(each.code() == Code::kResourceExhausted);
  CHECK(each.reason() == reasons::kQuota);
  CHECK(each.remedy().find("[limits] requests_per_user") != std::string::npos);
  ask(other);
  const Status all = GetNode(rig, other);
  CHECK(all.reason() == reasons::kQuota);
  CHECK(all.remedy().find("[limits] requests,") != std::string::npos);
  ask(root);
  ask(root);
  CHECK(GetNode(rig, root).reason() == reasons::kQuota);
  rig.engine.Run([&] { rig.api.script.Release(); });
  for (const auto& one : waiting) REQUIRE_OK(one->Await());
  // What was counted is given back once the answers are out.
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!GetNode(rig, other).ok()) REQUIRE(std::chrono::steady_clock::now() < end);
}

TEST_CASE("requests and answers are counted in bytes until they have been sent") {
  engine::Limits limits;
  limits.memory = {4 << 20, 64 << 20};
  const engine::Ledger ledger("east", limits);
  ApiRig rig([&](ApiServerOptions& options) { options.ledger = ledger; });
  const engine::Owner alice{1000, "east"};
  rig.engine.Run([&] {
    rig.api.script.AnswerWith(SampleNode());
    rig.api.script.Hold();
  });
  const auto bytes = [&] { return ledger.bytes(engine::Charged::kRequests, alice); };
  Pending small(rig, rig.token);
  rig.engine.Await([&] { return rig.api.script.held() == 1; });
  const uint64_t one = bytes();
  CHECK(one > 0);
  Pending large(rig, rig.token, std::string(200, 'n'));
  rig.engine.Await([&] { return rig.api.script.held() == 2; });
  CHECK(bytes() > 2 * one + 400);
  rig.engine.Run([&] { rig.api.script.Release(); });
  REQUIRE_OK(small.Await());
  REQUIRE_OK(large.Await());
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (bytes() > 0) REQUIRE(std::chrono::steady_clock::now() < end);
}

TEST_CASE("whoever has no room for another request may still end something") {
  engine::Limits limits;
  limits.requests = {1, 10};
  const engine::Ledger ledger("east", limits);
  ApiRig rig([&](ApiServerOptions& options) { options.ledger = ledger; });
  rig.engine.Run([&] {
    rig.api.script.AnswerWith(SampleNode());
    rig.api.script.Hold();
  });
  Pending held(rig, rig.token);
  rig.engine.Await([&] { return rig.api.script.held() == 1; });
  CHECK(GetNode(rig, rig.token).reason() == reasons::kQuota);
  v1::DeleteGrantRequest request;
  request.set_id("g");
  google::protobuf::Empty nothing;
  const auto context = ApiRig::Context(rig.token);
  std::thread release([&] {
    rig.engine.Await([&] { return rig.api.script.held() == 2; });
    rig.engine.Run([&] { rig.api.script.Release(); });
  });
  CHECK(rig.buffers->DeleteGrant(context.get(), request, &nothing).ok());
  release.join();
  REQUIRE_OK(held.Await());
}

TEST_CASE("a client that takes no answers has its calls broken off, rather than kept") {
  constexpr uint32_t kCalls = 60;
  ApiRig rig([](ApiServerOptions& options) {
    options.ledger = OfRequests({40, 80});
    options.most_unread_answers = 8;
  });
  rig.engine.Run([&] { rig.api.script.AnswerWith(LargeNode()); });
  RawClient client(rig.path());
  for (uint32_t i = 0; i < kCalls; ++i) {
    REQUIRE(client.Send(RawGetNode(2 * i + 1, rig.token)));
    // Kept, they would use up what their user may have after 40, and the engine see no more.
    CAPTURE(i);
    rig.engine.Await([&] { return rig.api.script.count() == i + 1; });
    // It never asks for more than HTTP/2 gives at first, but reads what it is sent.
    client.Read();
  }
  rig.engine.Run([&] { rig.api.script.AnswerWith(SampleNode()); });
  REQUIRE_OK(GetNode(rig, rig.OpenSession(1001)));
}

TEST_CASE("a client that does not read its connection loses it, and its requests count no more") {
  // Once what waits has become too much, and of one alone that has been deaf for long.
  const bool crowded = GENERATE(true, false);
  ApiRig rig([&](ApiServerOptions& options) {
    options.ledger = OfRequests({40, 80});
    if (crowded) {
      options.most_unread_answers = 8;
    } else {
      options.deaf = std::chrono::milliseconds(1);
    }
  });
  const std::string other = rig.OpenSession(1001);
  rig.engine.Run([&] { rig.api.script.AnswerWith(LargeNode()); });
  RawClient deaf(rig.path());
  uint32_t sent = 0;
  for (; sent < 40; ++sent) REQUIRE(deaf.Send(RawGetNode(2 * sent + 1, rig.token)));
  rig.engine.Await([&] { return rig.api.script.count() == 40; });
  rig.engine.Run([&] { rig.api.script.AnswerWith(SampleNode()); });
  REQUIRE_OK(GetNode(rig, other));
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (deaf.Send(RawGetNode(2 * sent++ + 1, rig.token))) {
    REQUIRE(std::chrono::steady_clock::now() < end);
  }
  CHECK(rig.reports.Next().message().find("does not read") != std::string::npos);
  while (!GetNode(rig, rig.token).ok()) REQUIRE(std::chrono::steady_clock::now() < end);
  // The connection of who reads has stayed.
  CHECK(rig.channel->GetState(false) == GRPC_CHANNEL_READY);
  REQUIRE_OK(GetNode(rig, other));
}
}  // namespace caps_test
