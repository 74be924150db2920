// A daemon's gRPC servers around engines that a test plays.
#pragma once

#include <grpcpp/create_channel.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/registry/sessions.h"
#include "daemon/rpc/grpc/grpc_status.h"
#include "daemon/rpc/serving/api_server.h"
#include "daemon/rpc/serving/peer_server.h"
#include "onecopy/v1/buffer.grpc.pb.h"
#include "onecopy/v1/node.grpc.pb.h"
#include "onecopy/v1/peer.grpc.pb.h"
#include "onecopy/v1/session.grpc.pb.h"
#include "onecopy/v1/transfer.grpc.pb.h"
#include "proto/codec/protocol.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/rpc/fake_apis.h"
#include "transport/core/base/mutex.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::rpc {

inline constexpr std::chrono::seconds kPatience{120};  // so that a test that fails ends

// What servers report, to be waited for.
class Reports {
 public:
  std::function<void(const Status&)> Sink() {
    return [this](const Status& status) {
      const MutexLock lock(mutex_);
      reports_.push_back(status);
      changed_.NotifyAll();
    };
  }
  Status Next() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(mutex_);
    while (reports_.empty()) REQUIRE(changed_.WaitUntil(mutex_, deadline));
    Status first = reports_.front();
    reports_.erase(reports_.begin());
    return first;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::vector<Status> reports_ ONECOPY_GUARDED_BY(mutex_);
};

// The engine's thread.
class EngineThread {
 public:
  os::EventLoop& loop() { return thread_.loop(); }
  void Run(Task task) { thread_.RunSync(std::move(task)); }
  template <typename T>
  T Get(std::function<T()> value) {
    std::optional<T> got;
    thread_.RunSync([&] { got = value(); });
    return std::move(*got);
  }
  // Until `condition`, on the engine's thread, holds: looked at again after everything it does.
  void Await(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!Get<bool>(condition)) REQUIRE(std::chrono::steady_clock::now() < end);
  }
  void Stop() { thread_.StopAndJoin(); }

 private:
  os::LoopThread thread_{"engine"};
};

class ApiRig {
 public:
  explicit ApiRig(const std::function<void(ApiServerOptions&)>& change = {},
                  const engine::Limits& limits = {})
      : sessions("east", 998, {"east", limits}) {
    ApiServerOptions options;
    options.path = path();
    options.node = "east";
    options.version = "1.2.3";
    options.report = reports.Sink();
    if (change) change(options);
    auto started = ApiServer::Start(std::move(options), engine.loop(), api, sessions);
    REQUIRE_OK(started);
    server = std::move(*started);
    token = OpenSession();
    channel = Channel();
    transfers = v1::TransferService::NewStub(channel);
    buffers = v1::BufferService::NewStub(channel);
    nodes = v1::NodeService::NewStub(channel);
  }
  ~ApiRig() {
    server->Stop();
    engine.Stop();
  }

  std::string path() const { return folder_ / "api.sock"; }
  std::shared_ptr<grpc::Channel> Channel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel("unix:" + path(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  std::string OpenSession(uint32_t uid = 1000) {
    engine::ClientIdentity identity;
    identity.pid = 4711;
    identity.uid = uid;
    identity.gid = 100;
    identity.program = "test";
    identity.presenter = "uid " + std::to_string(::geteuid());  // whatever uid it is to be
    std::string opened;
    engine.Run([&] { opened = sessions.Open(identity)->token; });
    return opened;
  }
  // A context with this session's token, and patience.
  std::unique_ptr<grpc::ClientContext> Context() const { return Context(token); }
  static std::unique_ptr<grpc::ClientContext> Context(const std::string& token) {
    auto context = std::make_unique<grpc::ClientContext>();
    if (!token.empty()) context->AddMetadata(kSessionMetadata, token);
    context->set_deadline(std::chrono::system_clock::now() + kPatience);
    return context;
  }

  EngineThread engine;
  FakeClientApi api;
  Reports reports;
  std::unique_ptr<ApiServer> server;
  std::string token;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::TransferService::Stub> transfers;
  std::unique_ptr<v1::BufferService::Stub> buffers;
  std::unique_ptr<v1::NodeService::Stub> nodes;
  engine::Sessions sessions;  // used on the engine's thread alone

 private:
  testing::TempFolder folder_;
};

}  // namespace onecopy::rpc
