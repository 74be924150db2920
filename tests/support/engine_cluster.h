// Several engines in one process, joined by direct calls instead of gRPC: everything of the daemon
// but its sockets for clients and peers, with real memory and real links, and with faults between
// the nodes at will.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/engine/engine.h"
#include "tests/support/catch.h"
#include "transport/core/base/mutex.h"

namespace onecopy::testing {

class EngineCluster;

// What a node is made of, to be changed by a test before it starts.
struct NodePlan {
  engine::Options options;
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<std::unique_ptr<Link>> links;
  std::vector<std::unique_ptr<Store>> stores = {};
};

// A node's tcp link, on a free port of loopback.
std::unique_ptr<Link> MakeTcpLink(const std::string& node, const std::string& zero_copy = "off");

class EngineNode {
 public:
  EngineNode(EngineCluster& cluster, NodePlan plan);
  ~EngineNode();

  engine::Engine& engine() { return *engine_; }
  const std::string& name() const { return name_; }

  // Asks on the engine's thread and waits for the answer: Ask<BufferInfo>([&](ClientApi& api, auto
  // reply) {…}).
  template <typename T, typename F>
  Result<T> Ask(F call) {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    auto future = promise->get_future();
    engine_->loop().Post([this, call, promise]() mutable {
      call(engine_->client(), engine::Reply<T>([promise](Result<T> result) {
             promise->set_value(std::move(result));
           }));
    });
    return future.get();
  }

  // A session of uid 1000, unless said otherwise.
  engine::Principal Attach(uint32_t uid = 1000);
  void Detach(const engine::Principal& who);

  Result<BufferInfo> CreateBuffer(const engine::Principal& who, const std::string& name,
                                  uint64_t bytes);
  // A registered memfd of the client's, and where the test sees it.
  struct Registered {
    BufferInfo info;
    std::shared_ptr<void> keep;
    std::byte* data = nullptr;
  };
  Result<Registered> Register(const engine::Principal& who, const std::string& name,
                              uint64_t bytes);

  Result<TransferInfo> Start(const engine::Principal& who, TransferRequest request);
  // Waits until the transfer, as this node sees it, is in a last state, or in `also`.
  TransferInfo Wait(const engine::Principal& who, const TransferId& id,
                    TransferState also = TransferState::kSucceeded);
  Result<TransferInfo> Copy(const engine::Principal& who, TransferRequest request);

 private:
  EngineCluster& cluster_;
  const std::string name_;
  std::unique_ptr<engine::PeerDialer> dialer_;
  std::unique_ptr<engine::Engine> engine_;
};

class EngineCluster {
 public:
  // Nodes that know each other by name and share a domain of uids. `change` may change any before
  // it starts.
  explicit EngineCluster(const std::vector<std::string>& names,
                         const std::function<void(const std::string&, NodePlan&)>& change = {});
  ~EngineCluster();

  EngineNode& operator[](const std::string& name) { return *nodes_.at(name); }
  // A fresh engine of the same name, as after a restart of the daemon.
  void Restart(const std::string& name);
  void Remove(const std::string& name);

  // Calls from one node to another fail as if the network were cut, until it is mended.
  void Cut(const std::string& from, const std::string& to);
  void Mend(const std::string& from, const std::string& to);
  // Such calls ("Report", "Finish", …) of any node get no answer but this failure; by default, that
  // the node is out of reach.
  void FailCalls(const std::string& method, const Status& why = {});
  void AllowCalls(const std::string& method);
  // Such calls are never answered, as long as the callee stays.
  void HangCalls(const std::string& method);
  // Such calls are not on their way before ReleaseCalls.
  void HoldCalls(const std::string& method);
  // The answers to such calls are not on their way before ReleaseCalls.
  void HoldAnswers(const std::string& method);
  void ReleaseCalls();
  // How many of them were made, without those that failed on their way.
  size_t calls(const std::string& method);
  size_t failed_calls(const std::string& method);
  // Answers of this type (see Changes) are changed on their way.
  template <typename Reply>
  void ChangeReplies(std::function<void(Reply&)> change) {
    const MutexLock lock(mutex_);
    std::get<std::function<void(Reply&)>>(changes_) = std::move(change);
  }
  // Waits until `from` shows `to` in this state.
  void WaitForPeer(const std::string& from, const std::string& to, NodeState state);

  // For the direct calls.
  void CountFailed(const std::string& method);
  Status Reachable(const std::string& from, const std::string& to, const std::string& method);
  // Whether this call is never to be answered.
  bool Hangs(const std::string& method);
  // Keeps the call, if such are held.
  bool Holds(const std::string& method, Task& call);
  bool HoldsAnswer(const std::string& method, Task& answer);
  template <typename Reply>
  void Change(Reply& reply) {
    const MutexLock lock(mutex_);
    if (const auto& change = std::get<std::function<void(Reply&)>>(changes_)) change(reply);
  }
  // Runs `call` on that node's engine thread, if it is there; false otherwise.
  bool PostTo(const std::string& name, UniqueFunction<void(engine::PeerApi&)> call);
  // Likewise for an answer on its way back; dropped when the node is gone.
  void PostTask(const std::string& name, Task task);

 private:
  NodePlan Plan(const std::string& name);
  void Add(const std::string& name);

  const std::vector<std::string> names_;
  const std::function<void(const std::string&, NodePlan&)> change_;
  Mutex mutex_;
  // Those that can be called, and those that wait for answers.
  std::map<std::string, engine::Engine*> engines_ ONECOPY_GUARDED_BY(mutex_);
  std::map<std::string, engine::Engine*> answered_ ONECOPY_GUARDED_BY(mutex_);
  std::set<std::pair<std::string, std::string>> cuts_ ONECOPY_GUARDED_BY(mutex_);
  std::map<std::string, Status> failing_ ONECOPY_GUARDED_BY(mutex_);
  std::set<std::string> hanging_ ONECOPY_GUARDED_BY(mutex_);
  std::set<std::string> holding_ ONECOPY_GUARDED_BY(mutex_);
  std::set<std::string> holding_answers_ ONECOPY_GUARDED_BY(mutex_);
  std::vector<Task> held_ ONECOPY_GUARDED_BY(mutex_);
  std::map<std::string, size_t> calls_ ONECOPY_GUARDED_BY(mutex_);
  std::map<std::string, size_t> failed_calls_ ONECOPY_GUARDED_BY(mutex_);
  using Changes = std::tuple<
      std::function<void(engine::OpenProbeReply&)>, std::function<void(engine::OpenRangeReply&)>,
      std::function<void(engine::OpenPushReply&)>, std::function<void(engine::MemoryExport&)>,
      std::function<void(engine::PrepareReply&)>, std::function<void(engine::FinishReply&)>>;
  Changes changes_ ONECOPY_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<EngineNode>> nodes_;
  friend class EngineNode;
};

// Writes the pattern of this seed into a client's memory.
void Fill(const EngineNode::Registered& buffer, uint64_t seed);
// What this node tells `who` of a transfer.
Result<TransferInfo> GetTransfer(EngineNode& node, const engine::Principal& who,
                                 const TransferId& id);
// A transfer between two buffers, with everything else at its default.
TransferRequest Request(const std::string& source, const std::string& destination);
// "node:buffer@offset+bytes", as people write it; for tests only.
Endpoint ParseEnd(const std::string& text);

}  // namespace onecopy::testing
