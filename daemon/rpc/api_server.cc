#include "daemon/rpc/api_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "daemon/rpc/caller.h"
#include "daemon/rpc/convert_buffer.h"
#include "daemon/rpc/convert_node.h"
#include "daemon/rpc/convert_transfer.h"
#include "daemon/rpc/forward.h"
#include "daemon/rpc/server.h"
#include "onecopy/v1/buffer.grpc.pb.h"
#include "onecopy/v1/node.grpc.pb.h"
#include "onecopy/v1/transfer.grpc.pb.h"
#include "proto/codec/protocol.h"
#include "transport/os/unix_socket.h"

namespace onecopy::rpc {
namespace {

using engine::ClientApi;
using engine::Principal;
using Transfers = v1::TransferService::AsyncService;
using Buffers = v1::BufferService::AsyncService;
using Nodes = v1::NodeService::AsyncService;

constexpr int kBacklog = 128;
constexpr mode_t kMode = 0666;  // everybody may connect; the session decides what a call may do

Status NoSession() {
  return {Code::kUnauthenticated, reasons::kNoSession,
          std::string("the call has no metadata \"") + kSessionMetadata + "\"",
          "attach first: attach.sock gives the token that goes with each call"};
}

}  // namespace

class ApiServer::Core {
 public:
  Core(Executor& engine, engine::ClientApi& api, engine::Sessions& sessions)
      : there_{engine, api, sessions} {}
  ~Core() { Stop(); }

  Status Start(ApiServerOptions options) {
    ServerOptions server;
    server.thread = "rpc-0";
    server.credentials = grpc::InsecureServerCredentials();
    server.reflection = true;
    server.listener.name = "api.sock";
    ONECOPY_ASSIGN_OR_RETURN(server.listener.socket,
                             os::ListenUnix(options.path, SOCK_STREAM, kMode, kBacklog));
    server.listener.admit = AdmitUid;
    server.listener.report = std::move(options.report);
    path_ = std::move(options.path);
    ONECOPY_ASSIGN_OR_RETURN(server_,
                             Server::Start(std::move(server),
                                           {{v1::TransferService::service_full_name(), &transfers_},
                                            {v1::BufferService::service_full_name(), &buffers_},
                                            {v1::NodeService::service_full_name(), &nodes_}},
                                           [this](const Serving& serving) { ServeAll(serving); }));
    return OkStatus();
  }

  void Drain() { server_->Drain(); }

  void Stop() {
    if (!path_.empty()) ::unlink(std::exchange(path_, {}).c_str());
    if (server_) server_->Stop();
  }

 private:
  // What lives on the engine's thread.
  struct There {
    Executor& executor;
    engine::ClientApi& api;
    engine::Sessions& sessions;
  };

  void ServeAll(const Serving& serving) {
    Serve(transfers_, &Transfers::RequestCreateTransfer, &ClientApi::CreateTransfer, serving);
    Serve(transfers_, &Transfers::RequestGetTransfer, &ClientApi::GetTransfer, serving);
    Serve(transfers_, &Transfers::RequestListTransfers, &ClientApi::ListTransfers, serving);
    Serve(transfers_, &Transfers::RequestCancelTransfer, &ClientApi::CancelTransfer, serving);
    ServeStream(transfers_, &Transfers::RequestWatchTransfer, serving,
                [there = there_](const grpc::ServerContext& context,
                                 const v1::WatchTransferRequest& request,
                                 const std::weak_ptr<Subscriber<v1::Transfer>>& watcher) {
                  Watch(there, context, request, watcher);
                });
    Serve(buffers_, &Buffers::RequestCreateBuffer, &ClientApi::CreateBuffer, serving);
    Serve(buffers_, &Buffers::RequestRegisterBuffer, &ClientApi::RegisterBuffer, serving);
    Serve(buffers_, &Buffers::RequestGetBuffer, &ClientApi::GetBuffer, serving);
    Serve(buffers_, &Buffers::RequestListBuffers, &ClientApi::ListBuffers, serving);
    Serve(buffers_, &Buffers::RequestDeleteBuffer, &ClientApi::DeleteBuffer, serving);
    Serve(buffers_, &Buffers::RequestSumBuffer, &ClientApi::SumBuffer, serving);
    Serve(buffers_, &Buffers::RequestCreateGrant, &ClientApi::CreateGrant, serving);
    Serve(buffers_, &Buffers::RequestListGrants, &ClientApi::ListGrants, serving);
    Serve(buffers_, &Buffers::RequestDeleteGrant, &ClientApi::DeleteGrant, serving);
    Serve(nodes_, &Nodes::RequestGetNode, &ClientApi::GetNode, serving);
    Serve(nodes_, &Nodes::RequestListNodes, &ClientApi::ListNodes, serving);
    Serve(nodes_, &Nodes::RequestProbeNode, &ClientApi::ProbeNode, serving);
    Serve(nodes_, &Nodes::RequestReleaseDevice, &ClientApi::ReleaseDevice, serving);
    Serve(nodes_, &Nodes::RequestSetLogLevel, &ClientApi::SetLogLevel, serving);
  }

  // Has calls of a method of gRPC answered by a method of the engine.
  template <typename AsyncService, typename Service, typename Request, typename Reply,
            typename... Parameters>
  void Serve(AsyncService& service,
             void (Service::*start)(grpc::ServerContext*, Request*,
                                    grpc::ServerAsyncResponseWriter<Reply>*, grpc::CompletionQueue*,
                                    grpc::ServerCompletionQueue*, void*),
             void (ClientApi::*method)(const Principal&, Parameters...), const Serving& serving) {
    ServeUnary(service, start, serving,
               [there = there_, method](const grpc::ServerContext& context, const Request& request,
                                        Responder<Reply> responder) {
                 std::string token = MetadataOf(context, kSessionMetadata);
                 if (token.empty()) return responder(NoSession());
                 auto parsed = Parse(request);
                 if (!parsed.ok()) return responder(parsed.status());
                 there.executor.Post([there, method, token = std::move(token),
                                      arguments = AsArguments(*std::move(parsed)),
                                      responder = std::move(responder)]() mutable {
                   const Result<Principal> who = there.sessions.Find(token);
                   if (!who.ok()) return responder(who.status());
                   Forward(there.api, method, *who, std::move(arguments), std::move(responder));
                 });
               });
  }

  static void Watch(const There& there, const grpc::ServerContext& context,
                    const v1::WatchTransferRequest& request,
                    const std::weak_ptr<Subscriber<v1::Transfer>>& watcher) {
    const auto call = watcher.lock();
    if (!call) return;
    std::string token = MetadataOf(context, kSessionMetadata);
    if (token.empty()) return call->Fail(NoSession());
    Result<TransferId> id = Parse(request);
    if (!id.ok()) return call->Fail(id.status());
    // On the engine's thread; set once the engine knows of the watch.
    const auto watch = std::make_shared<std::optional<ClientApi::WatchId>>();
    there.executor.Post([there, token = std::move(token), id = *std::move(id), watcher, watch] {
      const Status status = Subscribe(there, token, id, watcher, watch.get());
      if (const auto call = watcher.lock(); call && !status.ok()) call->Fail(status);
    });
    // Comes after that task in the engine's queue, or not at all.
    call->OnEnd([there, watch] {
      there.executor.Post([there, watch] {
        if (*watch) there.api.Unwatch(**watch);
      });
    });
  }

  // Engine thread.
  static Status Subscribe(const There& there, const std::string& token, const TransferId& id,
                          const std::weak_ptr<Subscriber<v1::Transfer>>& watcher,
                          std::optional<ClientApi::WatchId>* watch) {
    ONECOPY_ASSIGN_OR_RETURN(const Principal who, there.sessions.Find(token));
    ONECOPY_ASSIGN_OR_RETURN(
        *watch, there.api.WatchTransfer(who, id, [watcher](const engine::TransferInfo& transfer) {
          const auto call = watcher.lock();
          if (!call) return;
          v1::Transfer message;
          Print(transfer, &message);
          call->Update(std::move(message), engine::IsFinal(transfer.state));
        }));
    return OkStatus();
  }

  const There there_;
  std::string path_;
  Transfers transfers_;
  Buffers buffers_;
  Nodes nodes_;
  std::unique_ptr<Server> server_;
};

ApiServer::ApiServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
ApiServer::~ApiServer() = default;

Result<std::unique_ptr<ApiServer>> ApiServer::Start(ApiServerOptions options, Executor& engine,
                                                    engine::ClientApi& api,
                                                    engine::Sessions& sessions) {
  auto core = std::make_unique<Core>(engine, api, sessions);
  ONECOPY_RETURN_IF_ERROR(core->Start(std::move(options)));
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(core)));
}

void ApiServer::Drain() { core_->Drain(); }

void ApiServer::Stop() { core_->Stop(); }

}  // namespace onecopy::rpc
