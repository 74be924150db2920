#include "daemon/rpc/serving/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "daemon/rpc/grpc/limits.h"
#include "onecopy/reasons.h"

namespace onecopy::rpc {
namespace {

// A client may watch as many transfers over one connection.
constexpr int kMaxStreams = 1024;
// For all connections of a server together: beyond it idle ones are closed and new ones refused. As
// many of the longest messages may be on their way; gRPC has no bound for one caller's share.
constexpr size_t kLongestMessages = 32;
constexpr size_t kMaxMemoryBytes = kLongestMessages * kMaxMessageBytes;
// What connects and says nothing that is HTTP/2 (or TLS) is dropped after this.
constexpr int kHandshakeMs = 10'000;
// A peer that has vanished without a word is found out by pings.
constexpr int kServerPingEveryMs = 60'000;
constexpr int kServerPingTimeoutMs = 20'000;
constexpr int kMinPingIntervalMs = 5'000;
// gRPC's reflection is served by threads of gRPC, one for each who asks.
constexpr int kReflectionThreads = 16;
// How long the last answers may take to reach clients that do not read.
constexpr std::chrono::milliseconds kFlush{1000};

// gRPC adds its reflection to every server of a program that is linked to it.
class Reflection final : public grpc::ServerBuilderOption {
 public:
  explicit Reflection(bool wanted) : wanted_(wanted) {}
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
    if (wanted_) {
      plugins->push_back(std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>());
    }
  }

 private:
  const bool wanted_;
};

void Limit(grpc::ServerBuilder& builder, const std::string& name) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetResourceQuota(
      grpc::ResourceQuota(name).Resize(kMaxMemoryBytes).SetMaxThreads(kReflectionThreads));
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kServerPingEveryMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kServerPingTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options,
                                              const std::vector<NamedService>& services,
                                              const std::function<void(const Serving&)>& serve) {
  std::unique_ptr<Server> server(new Server(options.most_unread_answers));
  grpc::ServerBuilder builder;
  Limit(builder, options.thread);
  builder.SetOption(std::make_unique<Reflection>(options.reflection));
  std::vector<std::string> names;
  for (const NamedService& service : services) {
    builder.RegisterService(service.service);
    names.push_back(service.name);
  }
  server->health_ = std::make_unique<Health>(std::move(names), options.most_health_watches);
  builder.RegisterService(&server->health_->service());
  auto doors = options.credentials == nullptr
                   ? Doors::ForEach(builder, options.ledger, options.doors, options.with_door)
                   : Doors::One(builder, std::move(options.credentials));
  auto queue = builder.AddCompletionQueue();
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return Status(Code::kInternal, reasons::kInternal, "gRPC could not start a server");
  }
  grpc::ServerCompletionQueue& calls_queue = *queue;
  server->queue_ = std::make_unique<QueueThread>(std::move(queue), options.thread);
  const auto greetings = std::make_shared<Greetings>();
  server->readers_ = std::make_unique<engine::Workers>(*server->queue_, options.thread + "-long");
  const Serving serving{calls_queue, server->calls_, engine::Turns(*server->queue_),
                        *server->readers_, greetings};
  server->health_->Serve(serving);
  serve(serving);
  options.listener.greetings = greetings;
  options.listener.ledger = options.ledger;
  options.listener.crowded = [&calls = server->calls_] { return calls.Crowded(); };
  ONECOPY_ASSIGN_OR_RETURN(server->listener_,
                           Listener::Start(std::move(options.listener), std::move(doors)));
  return server;
}

Server::~Server() { Stop(); }

void Server::Drain() { health_->Drain(); }

void Server::Stop() {
  if (server_ == nullptr) return;
  if (listener_) listener_->Stop();
  calls_.Close(Ending());
  server_->Shutdown(std::chrono::system_clock::now() + kFlush);
  // gRPC has let go of every call; what has completed may still wait in the queue for its turn.
  calls_.WaitUntilEmpty();
  queue_->StopAndJoin();
  readers_->StopAndJoin();
  server_.reset();
}

}  // namespace onecopy::rpc
