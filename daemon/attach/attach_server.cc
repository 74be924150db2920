#include "daemon/attach/attach_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cassert>
#include <map>
#include <unordered_map>
#include <utility>

#include "daemon/attach/connection.h"
#include "daemon/attach/engine_session.h"
#include "daemon/engine/registry/identify.h"
#include "onecopy/reasons.h"
#include "transport/os/sockets/acceptor.h"
#include "transport/os/sockets/newcomers.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::attach {
namespace {

constexpr int kBacklog = 128;
// For what clients that are attached do next, and for peers.
constexpr uint64_t kKeptDescriptors = 64;
constexpr mode_t kMode = 0666;  // everybody may attach; who it is decides what it may do

}  // namespace

// Thread `attach`, except Start and Stop.
class AttachServer::Core {
 public:
  Core(Options options, engine::Turns engine, engine::Sessions& sessions,
       const EngineSession::Asked& asked)
      : options_(std::move(options)),
        engine_(std::move(engine)),
        sessions_(sessions),
        asked_(asked),
        thread_(std::make_shared<os::LoopThread>("attach")) {}
  ~Core() { Stop(); }

  Status Start() {
    ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd listener,
                             os::ListenUnix(options_.path, SOCK_SEQPACKET, kMode, kBacklog));
    Status status;
    thread_->RunSync([&] {
      acceptor_ = std::make_unique<os::Acceptor>(
          thread_->loop(), std::move(listener),
          [this](os::UniqueFd socket) { Connected(std::move(socket)); },
          [this](const Status& shortage) { Report(shortage); },
          os::Shortage{kKeptDescriptors, [this](os::UniqueFd socket, const Status& why) {
                         TurnAwayElsewhere(std::move(socket), why);
                       }});
      status = acceptor_->Start();
    });
    return status;
  }

  void Stop() {
    if (std::exchange(stopped_, true)) return;
    thread_->RunSync([this] {
      if (!acceptor_) return;
      acceptor_.reset();
      ::unlink(options_.path.c_str());
      for (auto& [number, connection] : connections_) connection->Close();
      connections_.clear();
    });
    thread_->StopAndJoin();
  }

 private:
  void Connected(os::UniqueFd socket) {
    const Result<os::PeerProcess> peer = os::UnixPeer(socket.get());
    if (!peer.ok()) return Report(peer.status());
    auto identified = engine::Identify(socket.get(), *peer, *options_.namespace_names);
    if (!identified.ok()) {
      closer_->Close(peer->uid, std::move(socket));  // with whatever it has sent already
      if (identified.status().reason() != reasons::kOwnerDied) Report(identified.status());
      return;
    }
    const uint64_t number = next_++;
    const Uid payer = identified->identity.uid.payer();
    const auto connection = std::make_shared<Connection>(
        options_, thread_, closer_, Connection::Client{std::move(socket), std::move(*identified)},
        std::make_unique<EngineSession>(engine_, engine::Owner{payer, options_.node}, sessions_,
                                        asked_, thread_),
        [this, number] { Ended(number); });
    connections_.emplace(number, connection);
    MakeRoomFor(payer);
    Await(number, payer, *connection);
    if (++per_payer_[payer] > options_.most_per_uid) {
      return connection->Refuse(
          {Code::kResourceExhausted, reasons::kQuota,
           "uid " + payer.ToString() + " has " + std::to_string(options_.most_per_uid) +
               " connections, which is the limit of one user",
           "end some attached programs, or raise [limits] sessions_per_user"});
    }
    if (const Status status = connection->Start(); !status.ok()) {
      Report(status);
      connection->Refuse(status);
    }
  }

  void TurnAwayElsewhere(os::UniqueFd socket, const Status& why) {
    const Result<os::PeerProcess> peer = os::UnixPeer(socket.get());
    if (!peer.ok()) return;
    closer_->Run(peer->uid, [socket = std::move(socket), why] { TurnAway(socket, why); });
  }

  // Who has connected and said nothing has to go before others are refused.
  void MakeRoomFor(const Uid& payer) {
    if (per_payer_[payer] >= options_.most_per_uid) {
      newcomers_.PutOut(payer.ToString());
    } else if (newcomers_.size() >= options_.most_new) {
      newcomers_.PutOut();
    }
  }

  void Await(uint64_t number, const Uid& payer, Connection& connection) {
    const os::Newcomers::Id id = newcomers_.Enter(payer.ToString(), [this, number] {
      const std::shared_ptr<Connection> silent = connections_.at(number);
      silent->Refuse({Code::kResourceExhausted, reasons::kQuota,
                      "no Hello has arrived, and other clients want to connect"});
    });
    newcomer_ids_[number] = id;
    connection.WhenGreeted([this, number] { Greeted(number); });
  }

  void Greeted(uint64_t number) {
    const auto node = newcomer_ids_.extract(number);
    if (!node.empty()) newcomers_.Leave(node.mapped());
  }

  void Ended(uint64_t number) {
    Greeted(number);
    const auto node = connections_.extract(number);
    if (node.empty()) return;
    const auto count = per_payer_.find(node.mapped()->payer());
    if (--count->second == 0) per_payer_.erase(count);
  }

  void Report(const Status& status) {
    if (options_.report) options_.report(status.WithContext("attach.sock"));
  }

  const Options options_;
  const engine::Turns engine_;
  engine::Sessions& sessions_;
  const EngineSession::Asked asked_;
  std::shared_ptr<os::LoopThread> thread_;
  const std::shared_ptr<os::Closer> closer_ = std::make_shared<os::Closer>();
  bool stopped_ = false;
  std::unique_ptr<os::Acceptor> acceptor_;
  std::unordered_map<uint64_t, std::shared_ptr<Connection>> connections_;
  os::Newcomers newcomers_;  // of those, that have not said Hello
  std::unordered_map<uint64_t, os::Newcomers::Id> newcomer_ids_;
  std::map<Uid, size_t> per_payer_;
  uint64_t next_ = 1;
};

AttachServer::AttachServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
AttachServer::~AttachServer() = default;

Result<std::unique_ptr<AttachServer>> AttachServer::Start(Options options, engine::Turns engine,
                                                          engine::Sessions& sessions,
                                                          engine::RingApi* rings,
                                                          engine::SlabApi* slabs,
                                                          engine::MappingApi* mappings) {
  auto core = std::make_unique<Core>(std::move(options), engine, sessions,
                                     EngineSession::Asked{rings, slabs, mappings});
  ONECOPY_RETURN_IF_ERROR(core->Start());
  return std::unique_ptr<AttachServer>(new AttachServer(std::move(core)));
}

void AttachServer::Stop() { core_->Stop(); }

}  // namespace onecopy::attach
