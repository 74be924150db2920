#include "daemon/rpc/serving/api_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "daemon/rpc/identity/caller.h"
#include "daemon/rpc/identity/certified_users.h"
#include "daemon/rpc/identity/local_presenters.h"
#include "daemon/rpc/serving/arrival_stream.h"
#include "daemon/rpc/serving/audited.h"
#include "daemon/rpc/serving/charged.h"
#include "daemon/rpc/serving/forward.h"
#include "daemon/rpc/serving/server.h"
#include "daemon/rpc/serving/session_calls.h"
#include "daemon/rpc/serving/traced.h"
#include "onecopy/v1/arrival.grpc.pb.h"
#include "onecopy/v1/buffer.grpc.pb.h"
#include "onecopy/v1/node.grpc.pb.h"
#include "onecopy/v1/session.grpc.pb.h"
#include "onecopy/v1/transfer.grpc.pb.h"
#include "proto/codec/protocol.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::rpc {
namespace {

using engine::ClientApi;
using engine::Principal;
using Transfers = Unread<v1::TransferService>;
using Buffers = Unread<v1::BufferService>;
using Nodes = Unread<v1::NodeService>;
using Arrivals = Unread<v1::ArrivalService>;
using SessionService = Unread<v1::SessionService>;

constexpr int kBacklog = 128;
constexpr int kNetworkBacklog = 4096;  // as of the peers' port
// For peers, and for what is done already. Fewer than attach.sock keeps: who has got a session has
// to get a connection, too.
constexpr uint64_t kKeptDescriptors = 32;
// Users, each with their namespaces, who are connected at a time.
constexpr size_t kDoors = 256;
constexpr mode_t kMode = 0666;  // everybody may connect; the session decides what a call may do

}  // namespace

class ApiServer::Core {
 public:
  Core(const ApiServerOptions& options, engine::Turns engine, engine::ClientApi& api,
       engine::Sessions& sessions)
      : there_{std::move(engine), api, sessions, options.ledger, nullptr},
        node_(options.node),
        version_(options.version) {
    if (options.network) {
      users_ = std::make_shared<CertifiedUsers>(node_, options.network->credentials.trust);
      there_.presenters = users_;
    } else {
      local_ = std::make_shared<LocalPresenters>(node_, options.namespace_names);
      there_.presenters = local_;
    }
  }
  ~Core() { Stop(); }

  Status Start(ApiServerOptions options) {
    ServerOptions server;
    server.reflection = options.reflection;
    server.most_health_watches = options.most_health_watches;
    server.most_unread_answers = options.most_unread_answers;
    server.ledger = options.ledger;
    server.listener.deaf = options.deaf;
    server.listener.report = std::move(options.report);
    if (options.network) {
      ONECOPY_RETURN_IF_ERROR(ListenInNetwork(*options.network, server));
    } else {
      ONECOPY_RETURN_IF_ERROR(ListenHere(std::move(options.path), server));
    }
    ONECOPY_ASSIGN_OR_RETURN(
        server_, Server::Start(std::move(server),
                               {{v1::SessionService::service_full_name(), &session_service_},
                                {v1::TransferService::service_full_name(), &transfers_},
                                {v1::BufferService::service_full_name(), &buffers_},
                                {v1::NodeService::service_full_name(), &nodes_},
                                {v1::ArrivalService::service_full_name(), &arrivals_}},
                               [this](const Serving& serving) { ServeAll(serving); }));
    return OkStatus();
  }

  const os::HostPort& address() const { return address_; }

  void Drain() { server_->Drain(); }

  void Stop() {
    if (!path_.empty()) ::unlink(std::exchange(path_, {}).c_str());
    if (server_) server_->Stop();
  }

 private:
  Status ListenHere(std::string path, ServerOptions& server) {
    server.thread = "rpc-0";
    server.doors = kDoors;
    server.with_door = {"uid 0"};
    if (::geteuid() != 0) server.with_door.push_back("uid " + std::to_string(::geteuid()));
    server.listener.name = "api.sock";
    server.listener.charged = engine::Charged::kConnections;
    server.listener.kept_descriptors = kKeptDescriptors;
    ONECOPY_ASSIGN_OR_RETURN(server.listener.socket,
                             os::ListenUnix(path, SOCK_STREAM, kMode, kBacklog));
    // gRPC would close, on the thread that serves, what somebody sends along.
    (void)os::RefuseDescriptors(server.listener.socket.get());
    server.listener.admit = [local = local_](int fd) { return local->Admit(fd); };
    path_ = std::move(path);
    return OkStatus();
  }

  Status ListenInNetwork(const ApiNetwork& network, ServerOptions& server) {
    server.thread = "rpc-2";
    server.credentials = network.credentials.server;
    server.listener.name = "api_listen";
    server.listener.charged = engine::Charged::kFarConnections;
    server.listener.handshakes = true;
    server.listener.clients_speak_first = true;  // it has TLS always
    server.listener.kept_descriptors = kKeptDescriptors;
    ONECOPY_ASSIGN_OR_RETURN(server.listener.socket,
                             os::ListenTcp(network.listen, kNetworkBacklog));
    ONECOPY_ASSIGN_OR_RETURN(const os::HostPort bound,
                             os::LocalAddress(server.listener.socket.get()));
    address_ = {network.listen.host, bound.port};
    server.listener.admit = AdmitPeers(false);  // known by what they present
    server.listener.each_second = [users = users_] { users->LookAgain(); };
    return OkStatus();
  }

  void ServeAll(const Serving& serving) {
    ServeSessions(
        session_service_, serving,
        {there_.turns, there_.sessions, there_.ledger, there_.presenters, node_, version_});
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
    Serve(buffers_, &Buffers::RequestCreateViews, &ClientApi::CreateViews, serving);
    Serve(buffers_, &Buffers::RequestGetBuffer, &ClientApi::GetBuffer, serving);
    Serve(buffers_, &Buffers::RequestListBuffers, &ClientApi::ListBuffers, serving);
    Serve(buffers_, &Buffers::RequestDeleteBuffer, &ClientApi::DeleteBuffer, serving);
    Serve(buffers_, &Buffers::RequestSumBuffer, &ClientApi::SumBuffer, serving);
    Serve(buffers_, &Buffers::RequestCreateGrant, &ClientApi::CreateGrant, serving);
    Serve(buffers_, &Buffers::RequestListGrants, &ClientApi::ListGrants, serving);
    Serve(buffers_, &Buffers::RequestDeleteGrant, &ClientApi::DeleteGrant, serving);
    Serve(arrivals_, &Arrivals::RequestAcknowledgeArrivals, &ClientApi::AcknowledgeArrivals,
          serving);
    Serve(arrivals_, &Arrivals::RequestSendMessage, &ClientApi::SendMessage, serving);
    ServeStream(arrivals_, &Arrivals::RequestWatchArrivals, serving,
                [there = there_](const grpc::ServerContext& context,
                                 const v1::WatchArrivalsRequest& request,
                                 const std::weak_ptr<Subscriber<v1::WatchArrivalsResponse>>& call) {
                  ServeArrivals(there, context, request, call);
                });
    Serve(nodes_, &Nodes::RequestGetNode, &ClientApi::GetNode, serving);
    Serve(nodes_, &Nodes::RequestListNodes, &ClientApi::ListNodes, serving);
    Serve(nodes_, &Nodes::RequestProbeNode, &ClientApi::ProbeNode, serving);
    Serve(nodes_, &Nodes::RequestListExports, &ClientApi::ListExports, serving);
    Serve(nodes_, &Nodes::RequestReleaseDevice, &ClientApi::ReleaseDevice, serving);
    Serve(nodes_, &Nodes::RequestSetLogLevel, &ClientApi::SetLogLevel, serving);
    Serve(nodes_, &Nodes::RequestSetDraining, &ClientApi::SetDraining, serving);
  }

  // Has calls of a method of gRPC answered by a method of the engine.
  template <typename Service, typename Base, typename Request, typename Reply,
            typename... Parameters>
  void Serve(Unread<Service>& service, GrpcUnary<Base, Request, Reply> grpc_method,
             void (ClientApi::*method)(const Principal&, Parameters...), const Serving& serving) {
    ServeUnary(
        service, grpc_method, serving,
        [there = there_, method, serving](const grpc::ServerContext& context,
                                          Received<Request> received, Responder<Reply> responder) {
          Asking nobody = Nobody(context);
          Audit<Request>(responder, nobody, TargetOf(received.fields()));
          Result<Presented> presented = PresentedBy(*there.presenters, context);
          if (!presented.ok()) return responder(presented.status());
          serving.greetings->Called(context.peer());
          const Presenters::Payer payer = presented->payer;
          auto share = there.ledger.Share(kChargedAs<Request>, payer.owner, payer.administrator,
                                          BytesOf(received));
          if (!share.ok()) return responder(share.status());
          responder.Keep(*std::move(share));
          const bool is_long = received.IsLong();
          serving.Read(
              payer.owner, is_long,
              [there, method, nobody = std::move(nobody), presented = *std::move(presented),
               trace = TraceOf(context), received = std::move(received),
               responder = std::move(responder)]() mutable {
                const Result<const Request*> request = received.Read();
                if (!request.ok()) return responder(request.status());
                std::string target = TargetOf(**request);
                if (received.IsLong()) Audit<Request>(responder, std::move(nobody), target);
                auto parsed = Parse(**request);
                if (!parsed.ok()) return responder(parsed.status());
                AddTrace(trace, *parsed);
                const engine::Owner& owner = presented.payer.owner;
                there.turns.Post(
                    owner, [there, method, presented, target = std::move(target),
                            bytes = BytesOf(received), arguments = AsArguments(*std::move(parsed)),
                            responder = std::move(responder)]() mutable {
                      const auto who =
                          Admit<Request>(there, presented, std::move(target), bytes, responder);
                      if (!who.ok()) return responder(who.status());
                      Forward(there.api, method, *who, std::move(arguments), std::move(responder));
                    });
              });
        });
  }

  // Engine thread: whose call it is, who then pays for it.
  template <typename Request, typename Reply>
  static Result<Principal> Admit(const EngineSide& there, const Presented& presented,
                                 std::string target, uint64_t bytes, Responder<Reply>& responder) {
    ONECOPY_ASSIGN_OR_RETURN(Principal who, there.sessions.FindFor(presented.token, presented.by));
    Audit<Request>(responder, AskingOf(there.sessions, who, presented.by), std::move(target));
    const Presenters::Payer& paid = presented.payer;
    if (PayerOf(OwnerOf(who)) == paid.owner && who.administrator == paid.administrator) return who;
    ONECOPY_ASSIGN_OR_RETURN(Share share, there.ledger.Share(kChargedAs<Request>, OwnerOf(who),
                                                             who.administrator, bytes));
    responder.Keep(std::move(share));
    return who;
  }

  static void Watch(const EngineSide& there, const grpc::ServerContext& context,
                    const v1::WatchTransferRequest& request,
                    const std::weak_ptr<Subscriber<v1::Transfer>>& watcher) {
    const auto call = watcher.lock();
    if (!call) return;
    const Result<Presented> presented = PresentedBy(*there.presenters, context);
    if (!presented.ok()) {
      AuditWatch<v1::WatchTransferRequest>(Nobody(context), request.id(), presented.status());
      return call->Fail(presented.status());
    }
    Result<TransferId> id = Parse(request);
    if (!id.ok()) return call->Fail(id.status());
    std::shared_ptr<void> proof =
        there.presenters->WhenUnproven(context, [watcher](const Status& why) {
          if (const auto call = watcher.lock()) call->Fail(why);
        });
    // On the engine's thread; set once the engine knows of the watch.
    const auto watch = std::make_shared<std::optional<ClientApi::WatchId>>();
    const engine::Owner payer = presented->payer.owner;
    there.turns.Post(payer, [there, presented = *presented, id = *std::move(id), watcher, watch] {
      const Status status = Subscribe(there, presented, id, watcher, watch.get());
      if (const auto call = watcher.lock(); call && !status.ok()) call->Fail(status);
    });
    // Comes after that task in the engine's queue, or not at all.
    call->OnEnd([there, payer, watch, proof = std::move(proof)] {
      there.turns.Post(payer, [there, watch] {
        if (*watch) there.api.Unwatch(**watch);
      });
    });
  }

  // Engine thread.
  static Status Subscribe(const EngineSide& there, const Presented& presented, const TransferId& id,
                          const std::weak_ptr<Subscriber<v1::Transfer>>& watcher,
                          std::optional<ClientApi::WatchId>* watch) {
    const Result<Principal> who = there.sessions.FindFor(presented.token, presented.by);
    const Status status = who.ok() ? SubscribeAs(there, *who, id, watcher, watch) : who.status();
    AuditWatch<v1::WatchTransferRequest>(AskingOf(there.sessions, who, presented.by), id.str(),
                                         status);
    return status;
  }

  static Status SubscribeAs(const EngineSide& there, const Principal& who, const TransferId& id,
                            const std::weak_ptr<Subscriber<v1::Transfer>>& watcher,
                            std::optional<ClientApi::WatchId>* watch) {
    ONECOPY_ASSIGN_OR_RETURN(Share share, there.ledger.Share(engine::Charged::kRequests,
                                                             OwnerOf(who), who.administrator));
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

  EngineSide there_;
  std::shared_ptr<LocalPresenters> local_;  // of a socket
  std::shared_ptr<CertifiedUsers> users_;   // in a network
  const std::string node_;
  const std::string version_;
  std::string path_;
  os::HostPort address_;
  SessionService session_service_;
  Transfers transfers_;
  Buffers buffers_;
  Nodes nodes_;
  Arrivals arrivals_;
  std::unique_ptr<Server> server_;
};

ApiServer::ApiServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
ApiServer::~ApiServer() = default;

Result<std::unique_ptr<ApiServer>> ApiServer::Start(ApiServerOptions options, engine::Turns engine,
                                                    engine::ClientApi& api,
                                                    engine::Sessions& sessions) {
  auto core = std::make_unique<Core>(options, engine, api, sessions);
  ONECOPY_RETURN_IF_ERROR(core->Start(std::move(options)));
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(core)));
}

const os::HostPort& ApiServer::address() const { return core_->address(); }

void ApiServer::Drain() { core_->Drain(); }

void ApiServer::Stop() { core_->Stop(); }

}  // namespace onecopy::rpc
