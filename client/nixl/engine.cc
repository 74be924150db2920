#include "client/nixl/engine.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>
#include <vector>

#include "client/nixl/outcome.h"
#include "onecopy/reasons.h"

namespace onecopy::nixl::abi {

// One transfer as NIXL's user made it, to be posted once or again and again.
class Request {
 public:
  std::string agent;
  Requests requests;
  std::shared_ptr<Posting> posting;  // the last one; null: not posted yet
  std::chrono::steady_clock::time_point posted;
  bool told = false;  // whether its end was told
};

}  // namespace onecopy::nixl::abi

namespace onecopy::nixl {
namespace {

using abi::Outcome;

// How long Release waits for a transfer to release its memory.
constexpr std::chrono::seconds kReleaseLimit(10);
// How long an engine's end waits for what is under way.
constexpr std::chrono::seconds kTeardown(5);
// What a notification or a question may take: so an engine's end has not to wait for one longer.
constexpr std::chrono::seconds kCallLimit(5);
// So long a core is kept from others by looks at a transfer.
constexpr std::chrono::microseconds kPolite(20);
// Notifications that can be under way at a time.
constexpr unsigned kWorkers = 16;

// Nothing of ours may throw through code of others.
template <typename F>
Outcome Guarded(std::string_view what, F&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return Say(what, {Code::kInternal, reasons::kInternal, error.what()});
  } catch (...) {
    return Say(what, {Code::kInternal, reasons::kInternal, "unknown exception"});
  }
}

std::vector<Piece> Pieces(const abi::TransferList& list) {
  std::vector<Piece> pieces;
  pieces.reserve(list.items.size());
  for (const abi::TransferDescriptor& item : list.items) {
    pieces.push_back({item.metadata->place.get(), item.address, item.bytes});
  }
  return pieces;
}

ConnectOptions OptionsFor(const Settings& settings, const std::string& agent) {
  ConnectOptions options;
  options.run_dir = settings.run_dir;
  options.program = "nixl agent " + agent;
  options.timeout = kCallLimit;
  return options;
}

}  // namespace

Engine::Core::Core(Settings chosen, const std::string& agent)
    : settings(std::move(chosen)), memories(settings.grant_to), mailbox(agent, settings.grant_to) {}

Status Engine::Core::Restore(Client& client) {
  ONECOPY_RETURN_IF_ERROR(memories.Restore(client));
  ONECOPY_ASSIGN_OR_RETURN(const NodeInfo node, client.GetNode(client.node()));
  {
    const MutexLock lock(mutex);
    boot_id = node.boot_id;
  }
  return mailbox.Restore(client);
}

AgentPlace Engine::Core::Here() const {
  const MutexLock lock(mutex);
  return {session->node(), mailbox.buffer(), boot_id};
}

Result<std::unique_ptr<Engine>> Engine::Create(const abi::InitParameters& init) {
  ONECOPY_ASSIGN_OR_RETURN(
      Settings settings,
      ParseSettings(init.parameters == nullptr ? abi::Parameters{} : *init.parameters));
  auto core = std::make_unique<Core>(std::move(settings), init.agent);
  ONECOPY_ASSIGN_OR_RETURN(core->session, Session::Open(OptionsFor(core->settings, init.agent),
                                                        [raw = core.get()](Client& client) {
                                                          return raw->Restore(client);
                                                        }));
  ONECOPY_RETURN_IF_ERROR(core->mailbox.Open(*core->session));
  return std::unique_ptr<Engine>(new Engine(init, std::move(core)));
}

Engine::Engine(const abi::InitParameters& init, std::unique_ptr<Core> core)
    : abi::Engine(init),
      core_(std::move(core)),
      outbox_(workers_,
              [this](const std::string& to, const std::string& message) {
                return Judge(to, Send(to, message));
              }),
      workers_(kWorkers) {}

Engine::~Engine() {
  ending_ = true;
  // Beside the rest, as each may have to wait for a daemon that does not answer.
  const auto close = [this] { core_->mailbox.Close(); };
  if (!workers_.Run(close).ok()) close();
  std::vector<std::shared_ptr<Posting>> running;
  {
    const MutexLock lock(mutex_);
    for (const auto& each : postings_) {
      if (auto posting = each.lock()) running.push_back(std::move(posting));
    }
  }
  for (const auto& posting : running) posting->Cancel();
  const auto deadline = std::chrono::steady_clock::now() + kTeardown;
  for (const auto& posting : running) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    static_cast<void>(posting->WaitForEnd(std::max(left, left.zero())));
    posting->Abandon();
  }
}

abi::Segments Engine::SupportedSegments() const {
  return {abi::Segment::kDram, abi::Segment::kVram};
}

Outcome Engine::Register(const abi::RegisteredDescriptor& memory, const abi::Segment& segment,
                         abi::Metadata*& out) {
  return Guarded("registering memory", [&] {
    const auto make = [&]() -> Result<std::shared_ptr<const Memory>> {
      ONECOPY_ASSIGN_OR_RETURN(const std::shared_ptr<Client> client, core_->session->Get());
      auto made = core_->memories.Register(*client, segment, memory.address, memory.bytes);
      ONECOPY_RETURN_IF_ERROR(core_->session->Note(made.status()));
      return made;
    };
    const Result<abi::Metadata*> handle = handles_.Register(memory, segment, make);
    if (handle.ok()) out = *handle;
    return Say("registering memory", handle.status());
  });
}

Outcome Engine::Deregister(abi::Metadata* metadata) {
  return Guarded("deregistering memory", [&] {
    const std::shared_ptr<const Memory> memory = handles_.Deregister(metadata);
    if (memory == nullptr || !core_->memories.Leave(memory)) return Outcome::kSuccess;
    return Say("deregistering memory", Remove(*memory));
  });
}

Status Engine::Remove(const Memory& memory) const {
  const auto client = core_->session->Get();
  if (!client) return OkStatus();  // what the daemon had of it has gone with the daemon
  const auto remove = [core = core_.get(), client = *client, buffer = memory.place.buffer] {
    return core->session->Note(client->ReleaseBuffer(buffer));
  };
  if (!memory.own) return remove();
  // Nobody but this process reaches it: what the daemon knows of it may go a little later.
  (*client)->CloseMemory(memory.place.buffer);
  const Status begun = workers_.Run([remove] { static_cast<void>(remove()); });
  return begun.ok() ? begun : remove();
}

Outcome Engine::Connect(const std::string& agent) {
  return Guarded("connecting", [&] {
    const auto connect = [&]() -> Status {
      ONECOPY_ASSIGN_OR_RETURN(const AgentPlace place, Find(agent));
      ONECOPY_ASSIGN_OR_RETURN(const std::shared_ptr<Client> client, core_->session->Get());
      ONECOPY_RETURN_IF_ERROR(core_->session->Note(client->GetNode(place.node).status()));
      // One that this agent's user may not see is told by the first transfer.
      if (client->GetBuffer(place.node, place.mailbox).ok()) core_->presence.Met(place);
      return OkStatus();
    };
    return Say("connecting to agent " + agent, connect());
  });
}

Outcome Engine::Disconnect(const std::string& agent) {
  return Guarded("disconnecting", [&] {
    const MutexLock lock(mutex_);
    const auto peer = peers_.find(agent);
    if (peer == peers_.end()) return Outcome::kSuccess;
    core_->presence.Forget(peer->second.place);
    peers_.erase(peer);
    return Outcome::kSuccess;
  });
}

Outcome Engine::Unload(abi::Metadata* metadata) {
  handles_.Unload(metadata);
  return Outcome::kSuccess;
}

Outcome Engine::Prepare(const abi::Operation& operation, const abi::TransferList& local,
                        const abi::TransferList& remote, const std::string& agent,
                        abi::Request*& out, const abi::Options* /*options*/) const {
  return Guarded("preparing a transfer", [&] {
    const auto prepare = [&]() -> Status {
      auto request = std::make_unique<abi::Request>();
      request->agent = agent;
      ONECOPY_ASSIGN_OR_RETURN(
          std::vector<TransferRequest> made,
          MakeRequests(operation, Pieces(local), Pieces(remote), core_->settings.policy));
      for (TransferRequest& each : made) {
        each.checksum = core_->settings.checksum;
        request->requests.push_back(std::make_shared<const TransferRequest>(std::move(each)));
      }
      out = request.release();
      return OkStatus();
    };
    return Say("preparing a transfer with agent " + agent, prepare());
  });
}

Outcome Engine::Post(const abi::Operation& /*operation*/, const abi::TransferList& /*local*/,
                     const abi::TransferList& /*remote*/, const std::string& agent,
                     abi::Request*& request, const abi::Options* options) const {
  return Guarded("posting a transfer", [&] {
    if (request == nullptr) return Outcome::kBadArgument;
    if (request->posting != nullptr && !request->posting->Outcome()) return Outcome::kStillActive;
    Posting::Afterwards afterwards;
    if (options != nullptr && options->has_notification) {
      // Behind those that were left to be sent before.
      afterwards.then = [this, agent, message = options->notification] {
        return outbox_.Send(agent, message);
      };
    }
    afterwards.judge = [this, agent](const Status& failure) { return Judge(agent, failure); };
    request->told = false;
    request->posted = std::chrono::steady_clock::now();
    request->posting =
        Posting::Start(*core_->session, workers_, request->requests, std::move(afterwards));
    const MutexLock lock(mutex_);
    if (postings_.size() >= sweep_at_) {
      std::erase_if(postings_, [](const auto& posting) { return posting.expired(); });
      sweep_at_ = std::max(kLeastSweep, 2 * postings_.size());
    }
    postings_.push_back(request->posting);
    return Outcome::kInProgress;
  });
}

Outcome Engine::Check(abi::Request* request) const {
  return Guarded("looking at a transfer", [&] {
    if (request == nullptr || request->posting == nullptr) return Outcome::kNotPosted;
    const std::optional<Status> ended = request->posting->Outcome();
    if (!ended) {
      // Who only looks, again and again, may have the core that the copying needs.
      if (std::chrono::steady_clock::now() - request->posted > kPolite) ::sched_yield();
      return Outcome::kInProgress;
    }
    if (request->told) return OutcomeFor(*ended);
    request->told = true;
    if (ended->ok()) {
      if (const auto place = Find(request->agent)) core_->presence.Met(*place);
    }
    return Say("a transfer with agent " + request->agent, *ended);
  });
}

Outcome Engine::Release(abi::Request* request) const {
  return Guarded("releasing a transfer", [&] {
    if (request == nullptr) return Outcome::kSuccess;
    if (request->posting != nullptr && !request->posting->Outcome()) {
      request->posting->Cancel();
      if (!request->posting->WaitForEnd(kReleaseLimit)) {
        return Say("releasing a transfer with agent " + request->agent,
                   {Code::kDeadlineExceeded, reasons::kStalled,
                    "it was cancelled, but still uses its memory",
                    "keep the memory, and release the transfer again"});
      }
    }
    delete request;
    return Outcome::kSuccess;
  });
}

Outcome Engine::PublicData(const abi::Metadata* metadata, std::string& out) const {
  return Guarded("describing memory", [&] {
    const Place& place = *metadata->place;
    out = Encode(MemoryPlace{place.buffer, metadata->address - place.address});
    return Outcome::kSuccess;
  });
}

Outcome Engine::ConnectionInfo(std::string& out) const {
  return Guarded("describing the agent", [&] {
    out = Encode(core_->Here());
    return Outcome::kSuccess;
  });
}

Outcome Engine::LoadConnectionInfo(const std::string& agent, const std::string& info) {
  return Guarded("loading an agent's address", [&] {
    const auto place = DecodeAgent(info);
    if (!place) return Say("metadata of agent " + agent, place.status());
    const MutexLock lock(mutex_);
    peers_[agent] = Peer{*place, {}};
    return Outcome::kSuccess;
  });
}

Outcome Engine::LoadRemote(const abi::RegisteredDescriptor& memory, const abi::Segment& /*segment*/,
                           const std::string& agent, abi::Metadata*& out) {
  return Guarded("loading an agent's memory", [&] {
    const auto found = DecodeMemory(memory.blob);
    if (!found) return Say("metadata of agent " + agent, found.status());
    const MutexLock lock(mutex_);
    const auto peer = peers_.find(agent);
    if (peer == peers_.end()) return Outcome::kNotFound;
    if (found->buffer.empty()) {  // no bytes
      out = handles_.LoadRemote(std::make_shared<Place>(Place{"", "", memory.address}),
                                memory.address);
      return Outcome::kSuccess;
    }
    const std::string& node = peer->second.place.node;
    // Descriptors in one buffer have one place, so that a transfer of many takes few requests.
    std::shared_ptr<const Place>& place = peer->second.memories[found->buffer];
    if (place == nullptr) {
      place = std::make_shared<Place>(Place{node == core_->session->node() ? "" : node,
                                            found->buffer, memory.address - found->offset_bytes});
    }
    if (place->address != memory.address - found->offset_bytes) {
      return Say("metadata of agent " + agent,
                 {Code::kInvalidArgument, reasons::kBadArgument,
                  "two descriptors in buffer " + found->buffer + " contradict each other"});
    }
    out = handles_.LoadRemote(place, memory.address);
    return Outcome::kSuccess;
  });
}

Outcome Engine::LoadLocal(abi::Metadata* local, abi::Metadata*& out) {
  return Guarded("loading local memory", [&] {
    out = handles_.LoadLocal(local);
    return out == nullptr ? Outcome::kNotFound : Outcome::kSuccess;
  });
}

Outcome Engine::TakeNotifications(abi::Notifications& out) {
  return Guarded("taking notifications", [&] {
    core_->mailbox.Take(out);
    return Outcome::kSuccess;
  });
}

Outcome Engine::Notify(const std::string& to, const std::string& message) const {
  return Guarded("notifying", [&] {
    const Result<AgentPlace> place = Find(to);
    const Status gone = place.ok() ? core_->presence.Known(*place) : place.status();
    if (!gone.ok()) return Say("a notification for agent " + to, gone);
    return OutcomeFor(outbox_.Post(to, message));
  });
}

Result<AgentPlace> Engine::Find(const std::string& name) const {
  if (name == agent()) return core_->Here();
  const MutexLock lock(mutex_);
  const auto peer = peers_.find(name);
  if (peer != peers_.end()) return peer->second.place;
  return Status(Code::kNotFound, reasons::kPeerNotFound,
                "the metadata of agent " + name + " has no place that was loaded",
                "load the agent's metadata first (add_remote_agent)");
}

Status Engine::Send(const std::string& to, const std::string& message) const {
  if (ending_) return {Code::kCancelled, reasons::kCancelled, "the agent ends"};
  ONECOPY_ASSIGN_OR_RETURN(const AgentPlace place, Find(to));
  ONECOPY_ASSIGN_OR_RETURN(const std::shared_ptr<Client> client, core_->session->Get());
  return core_->session->Note(core_->mailbox.Send(*client, place, message));
}

Status Engine::Judge(const std::string& about, const Status& failure) const {
  if (about == agent() || !Presence::IsDoubtful(failure)) return failure;
  const auto place = Find(about);
  const auto client = core_->session->Get();
  return place && client ? core_->presence.Judge(**client, *place, failure) : failure;
}

}  // namespace onecopy::nixl
