// The table of transfers that this node receives, sends or has ordered, running and recent.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/engine/client_api.h"
#include "daemon/engine/context.h"
#include "daemon/engine/owners.h"
#include "daemon/engine/run.h"

namespace onecopy::engine {

struct TransferRecord {
  TransferInfo info;
  Owner owner;
  std::string orderer;          // node that asked for it
  uint64_t number = 0;          // grows; the order of the list
  std::shared_ptr<Run> run;     // while something of it happens here
  std::vector<GrantId> grants;  // that its rights to buffers of this node rest on
};

// Engine thread. Records stay where they are until they are forgotten, long after their end.
class Transfers {
 public:
  explicit Transfers(Context& context) : context_(context) {}

  TransferRecord* Find(const TransferId& id);
  // A new record; ALREADY_EXISTS for an id that is known.
  Result<TransferRecord*> Add(TransferInfo info, Owner owner, std::string orderer);
  // Forgets a record that came to nothing, and tells its watchers nothing.
  void Drop(const TransferId& id);
  // Gives the record a run, which then ticks until EndRun.
  void BeginRun(TransferRecord& record, std::shared_ptr<Run> run);
  void EndRun(TransferRecord& record);

  // After any change of record.info: tells the watchers, and files away what has reached its last
  // state.
  void Changed(TransferRecord& record);
  // Changed, with this state and reason; the state follows from the reason's code.
  void Conclude(TransferRecord& record, const Status& outcome);

  Result<ClientApi::WatchId> Watch(const TransferId& id,
                                   std::function<void(const TransferInfo&)> update);
  void Unwatch(ClientApi::WatchId watch);
  bool IsWatched(const TransferId& id) const { return watches_of_.contains(id); }

  // Newest first.
  Result<Page<TransferInfo>> List(const PageRequest& page,
                                  const std::function<bool(const TransferRecord&)>& wanted) const;

  // Called with each record that reaches its last state.
  void OnFinal(std::function<void(const TransferRecord&)> final) { final_ = std::move(final); }

  size_t running() const { return running_; }  // records with a run
  void OnIdle(Task idle);                      // runs once, when nothing runs (now, if so)
  std::vector<TransferRecord*> Running();
  std::vector<TransferRecord*> Unfinished();  // not in a last state

 private:
  struct WatchEntry {
    TransferId id;
    std::function<void(const TransferInfo&)> update;
  };

  void Tick();
  void File(TransferRecord& record);

  Context& context_;
  std::unordered_map<TransferId, std::unique_ptr<TransferRecord>> records_;
  std::map<uint64_t, TransferRecord*, std::greater<>> by_number_;
  std::deque<TransferId> ended_;  // oldest first
  std::set<TransferId> filed_;    // ids in ended_
  uint64_t next_number_ = 1;
  std::map<ClientApi::WatchId, WatchEntry> watches_;
  std::map<TransferId, std::set<ClientApi::WatchId>> watches_of_;
  ClientApi::WatchId next_watch_ = 1;
  size_t running_ = 0;
  os::EventLoop::TimerId timer_ = 0;
  std::vector<Task> idle_;
  std::function<void(const TransferRecord&)> final_;
};

}  // namespace onecopy::engine
