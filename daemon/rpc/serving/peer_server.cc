#include "daemon/rpc/serving/peer_server.h"

#include <utility>

#include "daemon/rpc/convert/peer.h"
#include "daemon/rpc/identity/caller.h"
#include "daemon/rpc/identity/peer_address.h"
#include "daemon/rpc/serving/audited.h"
#include "daemon/rpc/serving/charged.h"
#include "daemon/rpc/serving/forward.h"
#include "daemon/rpc/serving/server.h"
#include "onecopy/v1/peer.grpc.pb.h"

namespace onecopy::rpc {
namespace {

using engine::PeerApi;
using Peers = Unread<v1::PeerService>;

// As many as may connect at once: where one has no place here, its kernel waits for a second.
constexpr int kPeerBacklog = 4096;

// Whether the kernel has vouched for who calls: AdmitPeers lets nobody else in over loopback, where
// there is no TLS.
bool IsFromLoopback(const grpc::ServerContext& context) {
  const Result<os::HostPort> address = ParsePeerUri(context.peer());
  return address.ok() && os::IsLoopback(address->host);
}

// What the message leaves to the connection.
template <typename Arguments>
void Complete(Arguments&, const std::string& /*from*/) {}
void Complete(engine::HelloRequest& hello, const std::string& from) {
  hello.self.address = CompleteAddress(hello.self.address, from);
}

struct From {
  std::string node;
  std::string address;  // as gRPC writes it
  bool local = false;
};

// All that a peer asks for, on whose behalf it says ever, has one allowance.
template <typename Request>
Asking AskingOf(const Result<std::string>& caller, const Request& request,
                const std::string& from) {
  if (!caller.ok()) return {"nobody", {}, from};
  std::string account = "node " + *caller;
  if constexpr (requires { Uid(request.uid(), request.uid_namespaces()); }) {
    const Uid uid(request.uid(), request.uid_namespaces());
    return {uid.ToString() + "@" + *caller, std::move(account), from};
  } else {
    return {account, account, from};
  }
}

}  // namespace

class PeerServer::Core {
 public:
  Core(engine::Turns engine, engine::PeerApi& api, const PeerServerOptions& options)
      : there_{std::move(engine), api, options.credentials.trust != nullptr, options.admit,
               options.ledger},
        callers_(std::make_shared<Callers>(options.node, options.credentials.trust)),
        credentials_(options.credentials) {}
  ~Core() { Stop(); }

  Status Start(PeerServerOptions options) {
    ServerOptions server;
    server.thread = "rpc-1";
    server.credentials = credentials_.server;
    server.most_health_watches = options.most_health_watches;
    server.listener.name = "peers";
    server.listener.charged = engine::Charged::kPeerConnections;
    server.listener.handshakes = true;
    server.ledger = there_.ledger;
    ONECOPY_ASSIGN_OR_RETURN(server.listener.socket, os::ListenTcp(options.listen, kPeerBacklog));
    ONECOPY_ASSIGN_OR_RETURN(const os::HostPort bound,
                             os::LocalAddress(server.listener.socket.get()));
    address_ = {options.listen.host, bound.port};
    server.listener.clients_speak_first = credentials_.tls;
    server.listener.marked = !credentials_.tls;
    server.listener.admit = AdmitPeers(!credentials_.tls);
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
    engine::Turns turns;
    engine::PeerApi& api;
    bool tls;
    std::function<Status(const std::string&, bool)> admit;
    engine::Ledger ledger;
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
    Serve(&Peers::RequestImportMemory, &PeerApi::ImportMemory, serving);
    Serve(&Peers::RequestRecall, &PeerApi::Recall, serving);
    Serve(&Peers::RequestReport, &PeerApi::Report, serving);
    Serve(&Peers::RequestQueryTransfer, &PeerApi::Query, serving);
    Serve(&Peers::RequestCancelTransfer, &PeerApi::Cancel, serving);
    Serve(&Peers::RequestCreateBuffer, &PeerApi::CreateBuffer, serving);
    Serve(&Peers::RequestDeleteBuffer, &PeerApi::DeleteBuffer, serving);
    Serve(&Peers::RequestGetBuffer, &PeerApi::GetBuffer, serving);
    Serve(&Peers::RequestListBuffers, &PeerApi::ListBuffers, serving);
    Serve(&Peers::RequestSumBuffer, &PeerApi::SumBuffer, serving);
    Serve(&Peers::RequestListGrants, &PeerApi::ListGrants, serving);
    Serve(&Peers::RequestListExports, &PeerApi::ListExports, serving);
    Serve(&Peers::RequestSendMessage, &PeerApi::SendMessage, serving);
  }

  // Has calls of a method of gRPC answered by a method of the engine.
  template <typename Base, typename Request, typename Reply, typename... Parameters>
  void Serve(GrpcUnary<Base, Request, Reply> grpc_method,
             void (PeerApi::*method)(const std::string&, Parameters...), const Serving& serving) {
    ServeUnary(
        service_, grpc_method, serving,
        [there = there_, callers = callers_, method, serving](const grpc::ServerContext& context,
                                                              Received<Request> received,
                                                              Responder<Reply> responder) {
          Result<std::string> caller = callers->Of(context);
          Audited(responder, caller, received, context.peer());
          if (!caller.ok()) return responder(caller.status());
          serving.greetings->Called(context.peer());
          const engine::Owner payer = engine::WholeNode(*caller);
          auto share = there.ledger.Share(kChargedAs<Request>, payer, false, BytesOf(received));
          if (!share.ok()) return responder(share.status());
          responder.Keep(*std::move(share));
          const bool is_long = received.IsLong();
          serving.Read(
              payer, is_long,
              [there, method, payer, received = std::move(received),
               from =
                   From{*std::move(caller), context.peer(), !there.tls && IsFromLoopback(context)},
               responder = std::move(responder)]() mutable {
                const Result<const Request*> request = received.Read();
                if (!request.ok()) return responder(request.status());
                if (received.IsLong()) Audited(responder, from.node, received, from.address);
                auto parsed = Parse(**request);
                if (!parsed.ok()) return responder(parsed.status());
                Complete(*parsed, from.address);
                there.turns.Post(payer, [there, method, from = std::move(from),
                                         arguments = AsArguments(*std::move(parsed)),
                                         responder = std::move(responder)]() mutable {
                  const Status admitted = there.admit(from.node, from.local);
                  if (!admitted.ok()) return responder(admitted);
                  Forward(there.api, method, from.node, std::move(arguments), std::move(responder));
                });
              });
        });
  }

  template <typename Request, typename Reply>
  static void Audited(Responder<Reply>& responder, const Result<std::string>& caller,
                      const Received<Request>& received, const std::string& from) {
    const Request& request = received.fields();
    Audit<Request>(responder, AskingOf(caller, request, from), TargetOf(request));
  }

  const There there_;
  const std::shared_ptr<Callers> callers_;  // used by the server's thread
  const Credentials credentials_;           // handshakes use it for as long as the server lives
  os::HostPort address_;
  Peers service_;
  std::unique_ptr<Server> server_;
};

PeerServer::PeerServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
PeerServer::~PeerServer() = default;

Result<std::unique_ptr<PeerServer>> PeerServer::Start(PeerServerOptions options,
                                                      engine::Turns engine, engine::PeerApi& api) {
  auto core = std::make_unique<Core>(engine, api, options);
  ONECOPY_RETURN_IF_ERROR(core->Start(std::move(options)));
  return std::unique_ptr<PeerServer>(new PeerServer(std::move(core)));
}

const os::HostPort& PeerServer::address() const { return core_->address(); }
void PeerServer::Drain() { core_->Drain(); }
void PeerServer::Stop() { core_->Stop(); }

}  // namespace onecopy::rpc
