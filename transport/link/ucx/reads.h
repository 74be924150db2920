// The reader's half of a connection: takes keys, gets bytes, releases keys.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "transport/core/base/fair_queue.h"
#include "transport/core/contracts/link.h"
#include "transport/link/ucx/dialogue.h"
#include "transport/link/ucx/protocol.h"

namespace onecopy::ucx {

// Between whom, for a receipt's steps.
struct Ends {
  std::string node;  // this one, and the other
  std::string peer;
  bool same_machine = false;
};

// UCX cannot take back a get, so at most `gets` are with it and the rest wait here, where channels
// take turns. On the worker's thread.
class Reads {
 public:
  // `near`: this end, as keys name it. `idle`: nothing is with UCX any more; called after Stop
  // only.
  Reads(Ends ends, EndId near, unsigned gets, const Home& home, Worker& worker, Dialogue& dialogue,
        std::function<void()> idle);
  ~Reads();

  // `done` runs once, never inside this call.
  void Start(const GetRequest& request, Connection::GetDone done);
  void Cancel(ChannelId channel);

  // The owner hands out a key, or takes it back: what is under way by it may still end, and the
  // owner is told when it has.
  void OnExport(const Message& message);
  void OnRevoke(uint64_t key);
  // Nothing reads by it any more. UCX's key goes with the last get that uses it.
  void Release(uint64_t key) { readables_.erase(key); }

  // The connection ends, for this reason: what waits ends now, and nothing is begun any more.
  void Stop(const Status& why);
  bool idle() const { return posted_.empty(); }
  // The endpoint is gone: whatever UCX may say of them later, all gets have ended.
  void EndAll();

  uint64_t ended() const { return ended_; }  // any thread

  // By UCX's words for the protocol.
  const std::map<std::string, uint64_t>& got_bytes() const { return got_bytes_; }

 private:
  struct Readable;
  struct Operation;
  using OperationRef = std::shared_ptr<Operation>;

  Status Check(const GetRequest& request, const Result<KeyName>& key) const;
  void StartQueued();
  void Post(const OperationRef& operation);
  void OnEnded(const OperationRef& operation, Status status, const std::string& info);
  void EndQueued(const std::function<bool(const Operation&)>& which, const Status& status);
  void TellRevoked(uint64_t key);
  // Tells the owner that this end is there, until it has released everything.
  void SayWaiting();
  const Protocol& ProtocolOf(const std::string& info);
  StepList StepsFor(const Protocol& protocol, const std::string& from, const std::string& to);

  const Ends ends_;
  const EndId near_;
  const unsigned max_gets_;
  const Home& home_;
  Worker& worker_;
  Dialogue& dialogue_;
  const std::function<void()> idle_;

  Status stopped_;  // why; OK while it is not
  std::unordered_map<uint64_t, std::shared_ptr<Readable>> readables_;
  size_t revoked_ = 0;  // readables that are not released yet
  bool waiting_said_ = false;
  FairQueue<OperationRef> queued_{kFairTurnBytes};
  std::set<OperationRef> posted_;
  std::atomic<uint64_t> ended_{0};
  std::map<std::string, Protocol> protocols_;  // by UCX's words
  std::map<std::array<std::string, 3>, StepList> steps_;
  std::map<std::string, uint64_t> got_bytes_;
  std::set<std::pair<std::string, std::string>> emulated_;  // memories: UCX has no other way
};

}  // namespace onecopy::ucx
