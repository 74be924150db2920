#include "daemon/rpc/peer_server.h"

#include <utility>

#include "daemon/rpc/caller.h"
#include "daemon/rpc/convert_peer.h"
#include "daemon/rpc/forward.h"
#include "daemon/rpc/peer_address.h"
#include "daemon/rpc/server.h"
#include "onecopy/v1/peer.grpc.pb.h"

namespace onecopy::rpc {
namespace {

using engine::PeerApi;
using Peers = v1::PeerService::AsyncService;

constexpr int kBacklog = 128;

// What the message leaves to the connection.
template <typename Arguments>
void Complete(Arguments&, const grpc::ServerContext&) {}
void Complete(engine::HelloRequest& hello, const grpc::ServerContext& context) {
  hello.self.address = CompleteAddress(hello.self.address, context.peer());
}

}  // namespace

class PeerServer::Core {
 public:
  Core(Executor& engine, engine::PeerApi& api, const PeerServerOptions& options)
      : there_{engine, api, options.node, options.credentials.tls} {}
  ~Core() { Stop(); }

  Status Start(PeerServerOptions options) {
    ServerOptions server;
    server.thread = "rpc-1";
    server.credentials = std::move(options.credentials.server);
    server.listener.name = "peers";
    ONECOPY_ASSIGN_OR_RETURN(server.listener.socket, os::ListenTcp(options.listen, kBacklog));
    ONECOPY_ASSIGN_OR_RETURN(const os::HostPort bound,
                             os::LocalAddress(server.listener.socket.get()));
    address_ = {options.listen.host, bound.port};
    server.listener.admit = AdmitPeers(!there_.tls);
    server.listener.report = std::move(options.report);
    ONECOPY_ASSIGN_OR_RETURN(
        server_,
        Server::Start(std::move(server), {{v1::PeerService::service_full_name(), &service_}},
                      [this](const Serving& serving) { ServeAll(serving); }));
    return OkStatus();
  }

  const os::HostPort& address() const { return address_; }
  void Drain() { server_->Drain(); }
  void Stop() {
    if (server_) server_->Stop();
  }

 private:
  struct There {
    Executor& executor;
    engine::PeerApi& api;
    std::string node;
    bool tls;
  };

  void ServeAll(const Serving& serving) {
    Serve(&Peers::RequestHello, &PeerApi::Hello, serving);
    Serve(&Peers::RequestReserve, &PeerApi::Reserve, serving);
    Serve(&Peers::RequestStart, &PeerApi::Start, serving);
    Serve(&Peers::RequestConnect, &PeerApi::Connect, serving);
    Serve(&Peers::RequestPrepare, &PeerApi::Prepare, serving);
    Serve(&Peers::RequestFinish, &PeerApi::Finish, serving);
    Serve(&Peers::RequestOpenProbe, &PeerApi::OpenProbe, serving);
    Serve(&Peers::RequestCloseProbe, &PeerApi::CloseProbe, serving);
    Serve(&Peers::RequestOpenRange, &PeerApi::OpenRange, serving);
    Serve(&Peers::RequestOpenPush, &PeerApi::OpenPush, serving);
    Serve(&Peers::RequestCloseOpening, &PeerApi::CloseOpening, serving);
    Serve(&Peers::RequestBorrow, &PeerApi::Borrow, serving);
    Serve(&Peers::RequestRecall, &PeerApi::Recall, serving);
    Serve(&Peers::RequestReport, &PeerApi::Report, serving);
    Serve(&Peers::RequestQueryTransfer, &PeerApi::Query, serving);
    Serve(&Peers::RequestCancelTransfer, &PeerApi::Cancel, serving);
    Serve(&Peers::RequestGetBuffer, &PeerApi::GetBuffer, serving);
    Serve(&Peers::RequestListBuffers, &PeerApi::ListBuffers, serving);
    Serve(&Peers::RequestSumBuffer, &PeerApi::SumBuffer, serving);
  }

  // Has calls of a method of gRPC answered by a method of the engine.
  template <typename Service, typename Request, typename Reply, typename... Parameters>
  void Serve(void (Service::*start)(grpc::ServerContext*, Request*,
                                    grpc::ServerAsyncResponseWriter<Reply>*, grpc::CompletionQueue*,
                                    grpc::ServerCompletionQueue*, void*),
             void (PeerApi::*method)(const std::string&, Parameters...), const Serving& serving) {
    ServeUnary(service_, start, serving,
               [there = there_, method](const grpc::ServerContext& context, const Request& request,
                                        Responder<Reply> responder) {
                 Result<std::string> caller = CallerOf(context, there.node, there.tls);
                 if (!caller.ok()) return responder(caller.status());
                 auto parsed = Parse(request);
                 if (!parsed.ok()) return responder(parsed.status());
                 Complete(*parsed, context);
                 there.executor.Post([&api = there.api, method, caller = *std::move(caller),
                                      arguments = AsArguments(*std::move(parsed)),
                                      responder = std::move(responder)]() mutable {
                   Forward(api, method, caller, std::move(arguments), std::move(responder));
                 });
               });
  }

  const There there_;
  os::HostPort address_;
  Peers service_;
  std::unique_ptr<Server> server_;
};

PeerServer::PeerServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
PeerServer::~PeerServer() = default;

Result<std::unique_ptr<PeerServer>> PeerServer::Start(PeerServerOptions options, Executor& engine,
                                                      engine::PeerApi& api) {
  auto core = std::make_unique<Core>(engine, api, options);
  ONECOPY_RETURN_IF_ERROR(core->Start(std::move(options)));
  return std::unique_ptr<PeerServer>(new PeerServer(std::move(core)));
}

const os::HostPort& PeerServer::address() const { return core_->address(); }
void PeerServer::Drain() { core_->Drain(); }
void PeerServer::Stop() { core_->Stop(); }

}  // namespace onecopy::rpc
