#include "daemon/rpc/identity/doors.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"

namespace onecopy::rpc {
namespace {

constexpr char kWho[] = "onecopy-who";
constexpr std::chrono::minutes kUnusedFor{1};
constexpr auto kFromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD;

}  // namespace

// Writes onto each connection, with its first call, whose it is: what is written stays, so that
// later calls are theirs whatever becomes of the door.
class Doors::Doorkeeper final : public grpc::AuthMetadataProcessor {
 public:
  void SetWho(const std::string& who) {
    const MutexLock lock(mutex_);
    who_ = who;
  }

  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata&, grpc::AuthContext* connection, OutputMetadata*,
                       OutputMetadata*) override {
    // Calls of one connection may come on several threads.
    const MutexLock lock(mutex_);
    if (connection->FindPropertyValues(kWho).empty()) connection->AddProperty(kWho, who_);
    return grpc::Status::OK;
  }

 private:
  Mutex mutex_;
  std::string who_ ONECOPY_GUARDED_BY(mutex_);
};

Doors::~Doors() = default;

std::unique_ptr<Doors> Doors::One(grpc::ServerBuilder& builder,
                                  std::shared_ptr<grpc::ServerCredentials> credentials) {
  std::unique_ptr<Doors> doors(new Doors({"", {}}));
  doors->doors_.emplace_back().acceptor =
      builder.experimental().AddExternalConnectionAcceptor(kFromFd, std::move(credentials));
  return doors;
}

std::unique_ptr<Doors> Doors::ForEach(grpc::ServerBuilder& builder, engine::Ledger ledger,
                                      size_t count, const std::vector<std::string>& always) {
  std::unique_ptr<Doors> doors(new Doors(std::move(ledger)));
  for (size_t i = 0; i < count; ++i) {
    // What clients see is plain HTTP/2: these credentials say nothing, and alone let one listen in.
    const auto credentials = grpc::experimental::LocalServerCredentials(UDS);
    Door& door = doors->doors_.emplace_back();
    door.keeper = std::make_shared<Doorkeeper>();
    credentials->SetAuthMetadataProcessor(door.keeper);
    door.acceptor = builder.experimental().AddExternalConnectionAcceptor(kFromFd, credentials);
    if (i >= always.size()) continue;
    door.who = always[i];
    door.always = true;
    door.keeper->SetWho(door.who);
  }
  return doors;
}

Doors::Door* Doors::Find(const std::string& who) {
  if (doors_.front().keeper == nullptr) return &doors_.front();
  const auto found =
      std::find_if(doors_.begin(), doors_.end(), [&](const Door& door) { return door.who == who; });
  return found == doors_.end() ? nullptr : &*found;
}

Doors::Door* Doors::FindFree(os::Clock::time_point now) {
  for (Door& door : doors_) {
    const bool over = door.connections == 0 && now - door.unused_since >= kUnusedFor;
    if (over) door.charge.GiveBack();
  }
  const auto free = std::find_if(doors_.begin(), doors_.end(), [&](const Door& door) {
    if (door.always || door.connections > 0) return false;
    return door.who.empty() || now - door.unused_since >= kUnusedFor;
  });
  return free == doors_.end() ? nullptr : &*free;
}

Result<grpc::experimental::ExternalConnectionAcceptor*> Doors::Enter(const std::string& who,
                                                                     const engine::Owner& payer,
                                                                     os::Clock::time_point now) {
  Door* door = Find(who);
  if (door == nullptr) {
    door = FindFree(now);
    ONECOPY_ASSIGN_OR_RETURN(engine::Ledger::Charge charge,
                             ledger_.Take(engine::Charged::kDoors, payer, false));
    if (door == nullptr) {
      return Status(Code::kResourceExhausted, reasons::kQuota,
                    std::to_string(doors_.size()) +
                        " users or addresses are connected, or were within the last minute, which "
                        "is the limit",
                    "try again in a minute");
    }
    door->charge = std::move(charge);
    door->who = who;
    door->keeper->SetWho(who);
  }
  ++door->connections;
  return door->acceptor.get();
}

void Doors::Leave(const std::string& who, os::Clock::time_point now) {
  Door* door = Find(who);
  if (door == nullptr || --door->connections > 0) return;
  door->unused_since = now;
}

std::string WhoCalls(const grpc::ServerContext& context) {
  const auto who = context.auth_context()->FindPropertyValues(kWho);
  return who.empty() ? std::string() : std::string(who.front().data(), who.front().size());
}

}  // namespace onecopy::rpc
