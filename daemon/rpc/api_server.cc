#include "daemon/rpc/api_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "daemon/rpc/audited.h"
#include "daemon/rpc/call_quota.h"
#include "daemon/rpc/caller.h"
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
// For peers, and for what is done already. Fewer than attach.sock keeps: who has got a session has
// to get a connection, too.
constexpr uint64_t kKeptDescriptors = 32;
// Users, each with their namespaces, who are connected at a time.
constexpr size_t kDoors = 256;
constexpr mode_t kMode = 0666;  // everybody may connect; the session decides what a call may do

Status NoSession() {
  return {Code::kUnauthenticated, reasons::kNoSession,
          std::string("the call has no metadata \"") + kSessionMetadata + "\"",
          "attach first: attach.sock gives the token that goes with each call"};
}

Asking Nobody() { return {"nobody", {}, "api.sock"}; }

// Engine thread.
Asking AskingOf(const engine::Sessions& sessions, const Principal& who) {
  return {who.ToString(), {}, sessions.Describe(who.session)};
}

}  // namespace

class ApiServer::Core {
 public:
  Core(const ApiServerOptions& options, Executor& engine, engine::ClientApi& api,
       engine::Sessions& sessions)
      : there_{engine, api, sessions,
               std::make_shared<CallQuota>(options.requests, options.reserved_percent)} {}
  ~Core() { Stop(); }

  Status Start(ApiServerOptions options) {
    ServerOptions server;
    server.thread = "rpc-0";
    server.doors = kDoors;
    server.with_door = {"uid 0"};
    if (::geteuid() != 0) server.with_door.push_back("uid " + std::to_string(::geteuid()));
    server.reflection = options.reflection;
    server.most_health_watches = options.most_health_watches;
    server.most_unread_answers = options.most_unread_answers;
    server.listener.name = "api.sock";
    server.listener.kept_descriptors = kKeptDescriptors;
    ONECOPY_ASSIGN_OR_RETURN(server.listener.socket,
                             os::ListenUnix(options.path, SOCK_STREAM, kMode, kBacklog));
    // gRPC would close, on the thread that serves, what somebody sends along.
    (void)os::RefuseDescriptors(server.listener.socket.get());
    server.listener.admit = AdmitPresenter;
    server.listener.most = options.connections.total;
    server.listener.most_each = options.connections.each;
    server.listener.reserved = (options.connections.total * options.reserved_percent + 99) / 100;
    server.listener.remedy =
        "end some of the programs that are attached, or raise [limits] sessions_per_user or "
        "sessions";
    server.listener.deaf = options.deaf;
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
  // A token, and who presents it.
  struct Presented {
    std::string text;
    std::string by;
  };
  // What lives on the engine's thread.
  struct There {
    Executor& executor;
    engine::ClientApi& api;
    engine::Sessions& sessions;
    std::shared_ptr<CallQuota> calls;
  };

  void ServeAll(const Serving& serving) {
    Serve(transfers_, &Transfers::RequestCreateTransfer, &ClientApi::CreateTransfer, serving);
    Serve(transfers_, &Transfers::RequestGetTransfer, &ClientApi::GetTransfer, serving);
    Serve(transfers_, &Transfers::RequestListTransfers, &ClientApi::ListTransfers, serving);
    Serve(transfers_, &Transfers::RequestCancelTransfer, &ClientApi::CancelTransfer, serving);
    Serve(transfers_, &Transfers::RequestOpenSeries, &ClientApi::OpenSeries, serving);
    Serve(transfers_, &Transfers::RequestEndSeries, &ClientApi::EndSeries, serving);
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
                 std::string target = TargetOf(request);
                 Audit<Request>(responder, Nobody(), target);
                 if (token.empty()) return responder(NoSession());
                 auto parsed = Parse(request);
                 if (!parsed.ok()) return responder(parsed.status());
                 there.executor.Post([there, method, token = std::move(token),
                                      presenter = WhoCalls(context), target = std::move(target),
                                      weight = WeightOf(request),
                                      arguments = AsArguments(*std::move(parsed)),
                                      responder = std::move(responder)]() mutable {
                   const Result<Principal> who = there.sessions.FindFor(token, presenter);
                   if (!who.ok()) return responder(who.status());
                   Audit<Request>(responder, AskingOf(there.sessions, *who), std::move(target));
                   auto share = there.calls->Take(OwnerOf(*who), who->administrator, weight);
                   if (!share.ok()) return responder(share.status());
                   responder.Keep(*std::move(share));
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
    if (token.empty()) {
      AuditWatch(Nobody(), request.id(), NoSession());
      return call->Fail(NoSession());
    }
    Result<TransferId> id = Parse(request);
    if (!id.ok()) return call->Fail(id.status());
    // On the engine's thread; set once the engine knows of the watch.
    const auto watch = std::make_shared<std::optional<ClientApi::WatchId>>();
    there.executor.Post([there, token = std::move(token), presenter = WhoCalls(context),
                         id = *std::move(id), watcher, watch] {
      const Status status = Subscribe(there, {token, presenter}, id, watcher, watch.get());
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
  static Status Subscribe(const There& there, const Presented& token, const TransferId& id,
                          const std::weak_ptr<Subscriber<v1::Transfer>>& watcher,
                          std::optional<ClientApi::WatchId>* watch) {
    const Result<Principal> who = there.sessions.FindFor(token.text, token.by);
    const Status status = who.ok() ? SubscribeAs(there, *who, id, watcher, watch) : who.status();
    AuditWatch(who.ok() ? AskingOf(there.sessions, *who) : Nobody(), id.str(), status);
    return status;
  }

  static void AuditWatch(const Asking& asking, const std::string& transfer, const Status& why) {
    audit::Write({.who = asking.who,
                  .from = asking.from,
                  .what = "WatchTransfer",
                  .on = transfer,
                  .why = why});
  }

  static Status SubscribeAs(const There& there, const Principal& who, const TransferId& id,
                            const std::weak_ptr<Subscriber<v1::Transfer>>& watcher,
                            std::optional<ClientApi::WatchId>* watch) {
    ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<void> share,
                             there.calls->Take(OwnerOf(who), who.administrator, 1));
    if (const auto call = watcher.lock()) call->Keep(std::move(share));
    ONECOPY_ASSIGN_OR_RETURN(
        *watch, there.api.WatchTransfer(who, id, [watcher](const TransferInfo& transfer) {
          const auto call = watcher.lock();
          if (!call) return;
          v1::Transfer message;
          Print(transfer, &message);
          call->Update(std::move(message), IsFinal(transfer.state));
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
  auto core = std::make_unique<Core>(options, engine, api, sessions);
  ONECOPY_RETURN_IF_ERROR(core->Start(std::move(options)));
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(core)));
}

void ApiServer::Drain() { core_->Drain(); }

void ApiServer::Stop() { core_->Stop(); }

}  // namespace onecopy::rpc
