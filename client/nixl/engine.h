// The backend ONECOPY of one NIXL agent: what NIXL calls, in terms of onecopy.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/nixl/abi.h"
#include "client/nixl/handles.h"
#include "client/nixl/mailbox.h"
#include "client/nixl/memories.h"
#include "client/nixl/order.h"
#include "client/nixl/outbox.h"
#include "client/nixl/posting.h"
#include "client/nixl/presence.h"
#include "client/nixl/session.h"
#include "client/nixl/settings.h"
#include "client/nixl/wire.h"
#include "client/nixl/workers.h"
#include "onecopy/result.h"
#include "transport/core/base/mutex.h"

namespace onecopy::nixl {

// Thread-safe, whatever NIXL's own locking. No call throws, and none waits for a transfer but
// Release and Deregister; Notify waits for nothing, and a failure of it is told by the next one for
// that agent. Failures are told by Say.
class Engine final : public abi::Engine {
 public:
  // Connects to the daemon of this node. As Client::Connect, and ParseSettings.
  static Result<std::unique_ptr<Engine>> Create(const abi::InitParameters& init);
  // Cancels what is under way, waits until it has ended (at most five seconds), and ends all
  // registrations. Notifications that have not left yet are dropped.
  ~Engine() override;

  bool SupportsRemote() const override { return true; }
  bool SupportsLocal() const override { return true; }
  bool SupportsNotifications() const override { return true; }
  abi::Segments SupportedSegments() const override;
  abi::Outcome Register(const abi::RegisteredDescriptor& memory, const abi::Segment& segment,
                        abi::Metadata*& out) override;
  abi::Outcome Deregister(abi::Metadata* metadata) override;
  abi::Outcome Connect(const std::string& agent) override;
  abi::Outcome Disconnect(const std::string& agent) override;
  abi::Outcome Unload(abi::Metadata* metadata) override;
  abi::Outcome Prepare(const abi::Operation& operation, const abi::TransferList& local,
                       const abi::TransferList& remote, const std::string& agent,
                       abi::Request*& out, const abi::Options* options) const override;
  abi::Outcome Post(const abi::Operation& operation, const abi::TransferList& local,
                    const abi::TransferList& remote, const std::string& agent,
                    abi::Request*& request, const abi::Options* options) const override;
  abi::Outcome Check(abi::Request* request) const override;
  abi::Outcome Release(abi::Request* request) const override;
  abi::Outcome PublicData(const abi::Metadata* metadata, std::string& out) const override;
  abi::Outcome ConnectionInfo(std::string& out) const override;
  abi::Outcome LoadConnectionInfo(const std::string& agent, const std::string& info) override;
  abi::Outcome LoadRemote(const abi::RegisteredDescriptor& memory, const abi::Segment& segment,
                          const std::string& agent, abi::Metadata*& out) override;
  abi::Outcome LoadLocal(abi::Metadata* local, abi::Metadata*& out) override;
  abi::Outcome TakeNotifications(abi::Notifications& out) override;
  abi::Outcome Notify(const std::string& agent, const std::string& message) const override;

 private:
  // What a request needs of the engine while its postings run, under const functions.
  struct Core {
    explicit Core(Settings settings, const std::string& agent);

    // What a new session of the client's lacks.
    Status Restore(Client& client);

    // Where the agent is now, as others are told.
    AgentPlace Here() const;

    const Settings settings;
    Memories memories;
    Presence presence;
    std::unique_ptr<Session> session;
    mutable Mutex mutex;
    std::string boot_id ONECOPY_GUARDED_BY(mutex);  // of the daemon of the session
    Mailbox mailbox;                                // last: its thread uses the rest
  };
  // Of an agent whose metadata was loaded.
  struct Peer {
    AgentPlace place;
    std::map<std::string, std::shared_ptr<const Place>> memories;  // by buffer
  };

  Engine(const abi::InitParameters& init, std::unique_ptr<Core> core);

  // NOT_FOUND (PEER_NOT_FOUND) where none of its metadata was loaded.
  Result<AgentPlace> Find(const std::string& agent) const;
  // Delivers a notification.
  Status Send(const std::string& agent, const std::string& message) const;
  // What something with that agent failed with, or OWNER_DIED where it has gone. May block.
  Status Judge(const std::string& agent, const Status& failure) const;
  // No descriptor is in the memory any more, so that nothing may touch it.
  Status Remove(const Memory& memory) const;

  std::atomic<bool> ending_{false};
  const std::unique_ptr<Core> core_;
  Handles handles_;
  mutable Mutex mutex_;
  std::map<std::string, Peer> peers_ ONECOPY_GUARDED_BY(mutex_);
  static constexpr size_t kLeastSweep = 64;
  mutable std::vector<std::weak_ptr<Posting>> postings_ ONECOPY_GUARDED_BY(mutex_);
  mutable size_t sweep_at_ ONECOPY_GUARDED_BY(mutex_) = kLeastSweep;  // of postings_
  mutable Outbox outbox_;
  mutable Workers workers_;  // last: it waits for what uses the rest
};

}  // namespace onecopy::nixl
