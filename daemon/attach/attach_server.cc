#include "daemon/attach/attach_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cassert>
#include <map>
#include <unordered_map>
#include <utility>

#include "daemon/attach/connection.h"
#include "transport/core/reasons.h"
#include "transport/os/acceptor.h"
#include "transport/os/machine.h"
#include "transport/os/unix_socket.h"

namespace onecopy::attach {
namespace {

constexpr int kBacklog = 128;
constexpr mode_t kMode = 0666;  // everybody may attach; who it is decides what it may do

// What the kernel says of the process behind a socket. ABORTED for one that has ended.
Result<Connection::Client> Identify(os::UniqueFd socket) {
  ONECOPY_ASSIGN_OR_RETURN(const os::PeerProcess peer, os::UnixPeer(socket.get()));
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd pidfd, os::UnixPeerPidfd(socket.get(), peer));
  engine::ClientIdentity identity;
  identity.pid = peer.pid;
  identity.uid = peer.uid;
  identity.gid = peer.gid;
  identity.same_pid_namespace = os::SharesPidNamespace(peer.pid);
  // Only now is it sure that this was about that process, and not about a later one with its
  // number.
  if (pidfd && os::HasEnded(pidfd)) {
    return Status(Code::kAborted, reasons::kOwnerDied, "the client has ended");
  }
  return Connection::Client{std::move(socket), std::move(pidfd), std::move(identity)};
}

}  // namespace

// Thread `attach`, but for Start and Stop.
class AttachServer::Core {
 public:
  Core(Options options, Executor& engine, engine::Sessions& sessions, engine::RingApi* rings)
      : options_(std::move(options)),
        engine_(engine),
        sessions_(sessions),
        rings_(rings),
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
          [this](const Status& shortage) { Report(shortage); });
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
    Result<Connection::Client> client = Identify(std::move(socket));
    if (!client.ok()) {
      if (client.status().reason() != reasons::kOwnerDied) Report(client.status());
      return;
    }
    const uint64_t number = next_++;
    const uint32_t uid = client->identity.uid;
    const auto connection = std::make_shared<Connection>(
        options_, thread_->loop(), std::move(*client),
        std::make_unique<EngineSession>(engine_, sessions_, rings_, thread_),
        [this, number] { Ended(number); });
    connections_.emplace(number, connection);
    if (++per_uid_[uid] > options_.most_per_uid) {
      return connection->Refuse({Code::kResourceExhausted, reasons::kQuota,
                                 "uid " + std::to_string(uid) + " has " +
                                     std::to_string(options_.most_per_uid) +
                                     " connections already, and may have no more",
                                 "end some of the programs that are attached"});
    }
    if (const Status status = connection->Start(); !status.ok()) {
      Report(status);
      connection->Refuse(status);
    }
  }

  void Ended(uint64_t number) {
    const auto node = connections_.extract(number);
    if (node.empty()) return;
    const auto count = per_uid_.find(node.mapped()->uid());
    if (--count->second == 0) per_uid_.erase(count);
  }

  void Report(const Status& status) {
    if (options_.report) options_.report(status.WithContext("attach.sock"));
  }

  const Options options_;
  Executor& engine_;
  engine::Sessions& sessions_;
  engine::RingApi* const rings_;
  std::shared_ptr<os::LoopThread> thread_;
  bool stopped_ = false;
  std::unique_ptr<os::Acceptor> acceptor_;
  std::unordered_map<uint64_t, std::shared_ptr<Connection>> connections_;
  std::map<uint32_t, size_t> per_uid_;
  uint64_t next_ = 1;
};

AttachServer::AttachServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
AttachServer::~AttachServer() = default;

Result<std::unique_ptr<AttachServer>> AttachServer::Start(Options options, Executor& engine,
                                                          engine::Sessions& sessions,
                                                          engine::RingApi* rings) {
  auto core = std::make_unique<Core>(std::move(options), engine, sessions, rings);
  ONECOPY_RETURN_IF_ERROR(core->Start());
  return std::unique_ptr<AttachServer>(new AttachServer(std::move(core)));
}

void AttachServer::Stop() { core_->Stop(); }

}  // namespace onecopy::attach
