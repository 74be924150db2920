#include "tests/support/engine_cluster.h"

#include "daemon/log/audit.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "tests/support/direct_peer.h"
#include "tests/support/memory.h"
#include "transport/link/tcp/factory.h"
#include "transport/memory/host/factory.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::testing {

using engine::Principal;

std::unique_ptr<Link> MakeTcpLink(const std::string& node, const std::string& zero_copy) {
  Backend<Link> tcp = tcp::Describe();
  BackendContext context{node, Settings(tcp.settings), {}, {}};
  context.lanes = {"127.0.0.1:0"};
  context.settings.Set("zero_copy", zero_copy);
  return std::move(*tcp.create(context));
}

EngineNode::EngineNode(EngineCluster& cluster, NodePlan plan)
    : cluster_(cluster),
      name_(plan.options.node),
      dialer_(MakeDirectDialer(cluster, name_)),
      engine_(std::make_unique<engine::Engine>(std::move(plan.options), std::move(plan.memories),
                                               std::move(plan.links), *dialer_,
                                               std::move(plan.stores))) {
  {
    const MutexLock lock(cluster_.mutex_);
    cluster_.engines_[name_] = engine_.get();
    cluster_.answered_[name_] = engine_.get();
  }
  SetReplyLoop(*dialer_, engine_->loop());
  engine_->Start("127.0.0.1:1");
}

EngineNode::~EngineNode() {
  {
    const MutexLock lock(cluster_.mutex_);
    cluster_.engines_.erase(name_);
  }
  engine_->Stop();  // which may need answers to what it has asked
  const MutexLock lock(cluster_.mutex_);
  cluster_.answered_.erase(name_);
}

Principal EngineNode::Attach(uint32_t uid) {
  std::promise<Principal> attached;
  engine_->loop().Post([&] {
    engine::ClientIdentity identity;
    identity.pid = 1;
    identity.uid = uid;
    auto opened = engine_->sessions().Open(identity);
    attached.set_value(*engine_->sessions().Find(opened->token));
  });
  return attached.get_future().get();
}

void EngineNode::Detach(const Principal& who) {
  std::promise<void> detached;
  engine_->loop().Post([&] {
    engine_->sessions().Close(who.session);
    detached.set_value();
  });
  detached.get_future().wait();
}

Result<BufferInfo> EngineNode::CreateBuffer(const Principal& who, const std::string& name,
                                            uint64_t bytes) {
  return Ask<BufferInfo>([&](engine::ClientApi& api, auto reply) {
    CreateBufferRequest request;
    request.name = name;
    request.bytes = bytes;
    request.memory = "host";
    api.CreateBuffer(who, request, std::move(reply));
  });
}

Result<EngineNode::Registered> EngineNode::Register(const Principal& who, const std::string& name,
                                                    uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd fd, os::SealedMemfd("test", bytes));
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(fd.get(), bytes));
  auto shared = std::make_shared<os::Mapping>(std::move(mapping));
  auto passed = std::make_shared<os::UniqueFd>(std::move(fd));
  ONECOPY_ASSIGN_OR_RETURN(
      BufferInfo info, Ask<BufferInfo>([&](engine::ClientApi& api, auto reply) {
        auto handle = engine_->sessions().Deposit(who.session, std::move(*passed));
        if (!handle.ok()) return reply(handle.status());
        engine::RegisterBufferRequest request;
        request.name = name;
        request.bytes = bytes;
        request.kind = "host";
        request.form = "memfd";
        request.fd_handle = *handle;
        api.RegisterBuffer(who, request, std::move(reply));
      }));
  return Registered{std::move(info), shared, shared->data()};
}

Result<TransferInfo> EngineNode::Start(const Principal& who, TransferRequest request) {
  return Ask<TransferInfo>([&](engine::ClientApi& api, auto reply) {
    RangeGroups ranges;
    const size_t sources = request.more_sources.size() + 1;
    const size_t destinations = request.more_destinations.size() + 1;
    if (!request.ranges.empty() || request.equal_ranges != nullptr) {
      auto made = request.equal_ranges != nullptr
                      ? GroupRanges(*request.equal_ranges, sources, destinations)
                      : GroupRanges(request.ranges, sources, destinations);
      if (!made.ok()) return reply(made.status());
      ranges = *std::move(made);
    }
    api.CreateTransfer(who, request, std::move(ranges), std::move(reply));
  });
}

TransferInfo EngineNode::Wait(const Principal& who, const TransferId& id, TransferState also) {
  struct Seen {
    Mutex mutex;
    Condition changed;
    TransferInfo info ONECOPY_GUARDED_BY(mutex);
  };
  auto seen = std::make_shared<Seen>();
  std::promise<Status> watching;
  engine_->loop().Post([&, seen] {
    auto watch = engine_->client().WatchTransfer(who, id, [seen](const TransferInfo& info) {
      const MutexLock lock(seen->mutex);
      seen->info = info;
      seen->changed.NotifyAll();
    });
    watching.set_value(watch.status());
  });
  REQUIRE_OK(watching.get_future().get());
  const MutexLock lock(seen->mutex);
  while (!IsFinal(seen->info.state) && seen->info.state != also) {
    seen->changed.Wait(seen->mutex);
  }
  return seen->info;
}

Result<TransferInfo> EngineNode::Copy(const Principal& who, TransferRequest request) {
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo started, Start(who, std::move(request)));
  return Wait(who, started.id);
}

EngineCluster::EngineCluster(const std::vector<std::string>& names,
                             const std::function<void(const std::string&, NodePlan&)>& change)
    : names_(names), change_(change) {
  REQUIRE_OK(log::SetLevel("error"));  // what the tests provoke is not worth reading
  audit::SetOutput(nullptr, {.level = audit::Level::kOff});  // likewise
  for (const std::string& name : names_) Add(name);
  for (const std::string& from : names_) {
    for (const std::string& to : names_) {
      if (from != to) WaitForPeer(from, to, NodeState::kConnected);
    }
  }
}

EngineCluster::~EngineCluster() {
  nodes_.clear();
  ReleaseCalls();  // which nobody waits for any more
}

NodePlan EngineCluster::Plan(const std::string& name) {
  NodePlan plan;
  plan.options.node = name;
  plan.options.version = "test";
  plan.options.daemon_uid = 4242;
  plan.options.heartbeat = std::chrono::milliseconds(50);
  plan.options.reconnect_delay_min = std::chrono::milliseconds(5);
  plan.options.reconnect_delay_max = std::chrono::milliseconds(50);
  plan.options.slot_bytes = 64 << 10;
  plan.options.slots = 32;
  plan.options.set_log_level = [](const std::string&) { return std::string("info"); };
  for (const std::string& peer : names_) {
    if (peer != name) plan.options.peers.push_back({peer, "127.0.0.1:1", std::nullopt});
  }
  Backend<Memory> host = host::Describe();
  plan.memories.push_back(std::move(*host.create({name, Settings(host.settings), {}, {}})));
  plan.links.push_back(MakeTcpLink(name));
  if (change_) change_(name, plan);
  return plan;
}

void EngineCluster::Add(const std::string& name) {
  nodes_[name] = std::make_unique<EngineNode>(*this, Plan(name));
}

void EngineCluster::Restart(const std::string& name) {
  nodes_.erase(name);
  Add(name);
}

void EngineCluster::Remove(const std::string& name) { nodes_.erase(name); }

void EngineCluster::Cut(const std::string& from, const std::string& to) {
  const MutexLock lock(mutex_);
  cuts_.insert({from, to});
}

void EngineCluster::Mend(const std::string& from, const std::string& to) {
  const MutexLock lock(mutex_);
  cuts_.erase({from, to});
}

void EngineCluster::FailCalls(const std::string& method, const Status& why) {
  const MutexLock lock(mutex_);
  failing_[method] = why;
}

void EngineCluster::AllowCalls(const std::string& method) {
  const MutexLock lock(mutex_);
  failing_.erase(method);
}

void EngineCluster::HangCalls(const std::string& method) {
  const MutexLock lock(mutex_);
  hanging_.insert(method);
}

void EngineCluster::HoldCalls(const std::string& method) {
  const MutexLock lock(mutex_);
  holding_.insert(method);
}

void EngineCluster::HoldAnswers(const std::string& method) {
  const MutexLock lock(mutex_);
  holding_answers_.insert(method);
}

void EngineCluster::ReleaseCalls() {
  std::vector<Task> held;
  {
    const MutexLock lock(mutex_);
    holding_.clear();
    holding_answers_.clear();
    held.swap(held_);
  }
  for (Task& call : held) call();
}

bool EngineCluster::Holds(const std::string& method, Task& call) {
  const MutexLock lock(mutex_);
  if (!holding_.contains(method)) return false;
  held_.push_back(std::move(call));
  return true;
}

bool EngineCluster::HoldsAnswer(const std::string& method, Task& answer) {
  const MutexLock lock(mutex_);
  if (!holding_answers_.contains(method)) return false;
  held_.push_back(std::move(answer));
  return true;
}

size_t EngineCluster::calls(const std::string& method) {
  const MutexLock lock(mutex_);
  return calls_[method];
}

void EngineCluster::CountFailed(const std::string& method) {
  const MutexLock lock(mutex_);
  ++failed_calls_[method];
}

size_t EngineCluster::failed_calls(const std::string& method) {
  const MutexLock lock(mutex_);
  return failed_calls_[method];
}

bool EngineCluster::Hangs(const std::string& method) {
  const MutexLock lock(mutex_);
  ++calls_[method];
  return hanging_.contains(method);
}

Status EngineCluster::Reachable(const std::string& from, const std::string& to,
                                const std::string& method) {
  const MutexLock lock(mutex_);
  const auto failing = failing_.find(method);
  if (failing != failing_.end() && !failing->second.ok()) return failing->second;
  if (!cuts_.contains({from, to}) && failing == failing_.end() && engines_.contains(to))
    return OkStatus();
  return {Code::kUnavailable, reasons::kPeerDown, "node " + to + " is out of reach in this test"};
}

bool EngineCluster::PostTo(const std::string& name, UniqueFunction<void(engine::PeerApi&)> call) {
  const MutexLock lock(mutex_);
  const auto found = engines_.find(name);
  if (found == engines_.end()) return false;
  found->second->loop().Post(
      [engine = found->second, call = std::move(call)]() mutable { call(engine->node()); });
  return true;
}

void EngineCluster::PostTask(const std::string& name, Task task) {
  const MutexLock lock(mutex_);
  const auto found = answered_.find(name);
  if (found != answered_.end()) found->second->loop().Post(std::move(task));
}

void EngineCluster::WaitForPeer(const std::string& from, const std::string& to, NodeState state) {
  EngineNode& node = *nodes_.at(from);
  const Principal who = node.Attach();
  while (true) {
    const auto info = node.Ask<NodeInfo>(
        [&](engine::ClientApi& api, auto reply) { api.GetNode(who, to, std::move(reply)); });
    if (info.ok() && info->state == state) break;
    std::this_thread::yield();
  }
  node.Detach(who);
}

Endpoint ParseEnd(const std::string& text) {
  Endpoint end;
  const size_t colon = text.find(':');
  const size_t at = text.find('@');
  end.node = colon == std::string::npos ? "" : text.substr(0, colon);
  const size_t begin = colon == std::string::npos ? 0 : colon + 1;
  end.buffer = text.substr(begin, at == std::string::npos ? at : at - begin);
  if (at == std::string::npos) return end;
  const size_t plus = text.find('+', at);
  end.offset_bytes = std::stoull(text.substr(at + 1));
  if (plus != std::string::npos) end.bytes = std::stoull(text.substr(plus + 1));
  return end;
}

void Fill(const EngineNode::Registered& buffer, uint64_t seed) {
  Fill(buffer.data, buffer.info.bytes, seed);
}

Result<TransferInfo> GetTransfer(EngineNode& node, const engine::Principal& who,
                                 const TransferId& id) {
  return node.Ask<TransferInfo>(
      [&](engine::ClientApi& api, auto reply) { api.GetTransfer(who, id, std::move(reply)); });
}

TransferRequest Request(const std::string& source, const std::string& destination) {
  TransferRequest request;
  request.source = ParseEnd(source);
  request.destination = ParseEnd(destination);
  return request;
}

}  // namespace onecopy::testing
