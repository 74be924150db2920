// The table of transfers that this node receives, sends or has ordered, running and recent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/engine/api/client_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/history.h"
#include "daemon/engine/base/ledger.h"
#include "daemon/engine/base/owners.h"
#include "transport/core/contracts/link.h"

namespace onecopy::engine {

// A transfer's activity on this node.
// Engine thread. Kept by the table of transfers until it says that it has ended.
class Run {
 public:
  virtual ~Run() = default;

  // Ends the transfer early, for this reason. What moves is let go first; a run that is ending goes
  // on ending.
  virtual void Cancel(const Status& why) = 0;
  // This daemon ends. A run that the next process can resume stops and tells no node that the
  // transfer has ended; any other run is cancelled for this reason.
  virtual void Leave(const Status& why) { Cancel(why); }
  // About ten times a second.
  virtual void Tick() = 0;
  // A connection on which this node reads is gone.
  virtual void LoseReading(const Connection&, const Status&) {}
};

struct TransferRecord {
  TransferInfo info;
  Owner owner;
  std::string initiator;  // node that asked for it
  uint64_t number = 0;    // grows; the order of the list
  // When info.create_time was: the clock on the wall may be set meanwhile, and a transfer must not
  // end before it began.
  os::Clock::time_point created = os::Clock::now();
  os::Clock::time_point asked = created;  // when the request reached this node
  std::shared_ptr<Run> run;               // while something of it happens here
  std::vector<GrantId> grants;            // that its rights to buffers of this node rest on
  bool restored = false;                  // a previous process of this daemon began it
  bool logged = true;                     // whether the log is told of its end
  bool series = false;                    // parts move its bytes
  bool by_ring = false;                   // a ring carried it, and counts it: see Tally
  // Of those, one of several buffers: the destination's node decides it, as it does a transfer.
  bool bundle = false;
  Ledger::Charge charge = {};  // until its last state; of what is kept then: see Remember
  uint64_t held_bytes = 0;     // of the charge: those that are not `info`'s
  bool filed = false;          // its end was told
  bool heard = false;          // its client knows the end, or another node asked for it
  bool shelved = false;        // it is among those that are kept
  std::shared_ptr<Ledger::Charge> remembered = {};  // likewise
  bool forget = false;  // once its run has ended: it is not among those that are kept

  // A previous process of this daemon began it at info.create_time: its caller has waited since.
  void BeganBefore();
};

// Engine thread. Records stay where they are until they are forgotten, long after their end.
class Transfers {
 public:
  explicit Transfers(Context& context);

  TransferRecord* Find(const TransferId& id);
  // Room for one more under way, which keeps so many bytes beside its record: its owner's where
  // this node ordered it, else the ordering node's. RESOURCE_EXHAUSTED (QUOTA).
  Result<Ledger::Charge> Take(const Owner& owner, const std::string& initiator, bool administrator,
                              uint64_t bytes);
  // Who pays for a record.
  Owner PayerOf(const TransferRecord& record) const;
  // Whose turn its bytes take, with a count of its own of what waits.
  Flow FlowOf(const TransferRecord& record) const;
  // The limits that it keeps to: `own`, its own, is 0 for none.
  std::shared_ptr<TransferPace> PaceOf(const TransferRecord& record,
                                       uint64_t own_bytes_per_second) const;
  // A new record; ALREADY_EXISTS for an id that is known, INVALID_ARGUMENT for one of another
  // node's that a ring of this node could have. One that has ended needs no charge.
  Result<TransferRecord*> Add(TransferInfo info, Owner owner, std::string initiator,
                              Ledger::Charge charge);
  // Forgets a record that came to nothing, and tells its watchers nothing.
  void Drop(const TransferId& id);
  // Files away one whose end is not known, as if it had ended: it may be forgotten. What becomes of
  // it changes it anyway as long as it is there.
  void Shelve(TransferRecord& record);
  // Has one that has ended charged for what it keeps; false where there is no room for that.
  bool Remember(const TransferId& id);
  // Forgets one that has ended, now or when it has let go of everything. Parts of series are not
  // among the ended transfers that are kept; their series keeps some of them.
  void Forget(const TransferId& id);
  // Gives the record a run, which then ticks until EndRun.
  void BeginRun(TransferRecord& record, std::shared_ptr<Run> run);
  void EndRun(TransferRecord& record);

  // After any change of record.info: tells the watchers, and files away what has reached its last
  // state.
  void Changed(TransferRecord& record);
  // Changed, with this state and reason; the state follows from the reason's code.
  void Conclude(TransferRecord& record, const Status& outcome);

  // One that does not tell a client leaves the end unheard: see TransferRecord.
  Result<ClientApi::WatchId> Watch(const TransferId& id,
                                   std::function<void(const TransferInfo&)> update,
                                   bool tells_client = true);
  void Unwatch(ClientApi::WatchId watch);

  // Newest first, without parts of series: those of `who`, all for an administrator.
  Result<Page<TransferInfo>> List(const PageRequest& page, const Principal& who,
                                  const Owners& owners) const;

  // Called with each record that reaches its last state.
  void OnFinal(std::function<void(const TransferRecord&)> final) { final_ = std::move(final); }
  // Called with each record that is forgotten.
  void OnForgotten(std::function<void(const TransferId&)> forgotten) {
    forgotten_ = std::move(forgotten);
  }

  size_t running() const { return running_.size(); }                   // records with a run
  uint64_t begun() const { return begun_; }                            // runs, ever
  size_t moving() const { return running_.size() - running_series_; }  // of bytes, not of parts
  // Whether a run has moved bytes since then.
  bool MovedSince(os::Clock::time_point then) const { return moving() > 0 || moved_ > then; }
  // Something else has moved as many bytes as a run: runs of that time were not alone.
  void CountBeside() { ++begun_; }
  void OnIdle(Task idle);                  // runs once, when nothing runs (now, if so)
  std::vector<TransferRecord*> Running();  // newest first
  // The newest of them, at most so many.
  void ForEachRunning(size_t most, const std::function<void(const TransferRecord&)>& see) const;

 private:
  struct WatchEntry {
    TransferId id;
    std::function<void(const TransferInfo&)> update;
    bool tells_client;
  };

  // The newest has the greatest number.
  using ByNumber = std::map<uint64_t, TransferRecord*, std::greater<>>;

  void Tick();
  void File(TransferRecord& record);
  void ShelveLater(TransferRecord& record);
  bool Hear(TransferRecord& record);  // whether it was among `unheard_`
  void Erase(TransferRecord& record);
  static Result<Page<TransferInfo>> TakePage(const PageRequest& page, const ByNumber& records);

  Context& context_;
  std::unordered_map<TransferId, std::unique_ptr<TransferRecord>> records_;
  ByNumber by_number_;
  std::map<Owner, ByNumber> by_owner_;
  ByNumber running_;
  History<TransferId> ended_;
  uint64_t next_number_ = 1;
  std::map<ClientApi::WatchId, WatchEntry> watches_;
  std::map<TransferId, std::set<ClientApi::WatchId>> watches_of_;
  ClientApi::WatchId next_watch_ = 1;
  uint64_t begun_ = 0;
  os::Clock::time_point moved_ = {};  // when a run of bytes ended last
  // By payer: those that have ended, whose clients have not asked yet how.
  std::map<Owner, std::map<uint64_t, TransferRecord*>> unheard_;
  size_t running_series_ = 0;
  os::EventLoop::TimerId timer_ = 0;
  std::vector<Task> idle_;
  std::function<void(const TransferRecord&)> final_;
  std::function<void(const TransferId&)> forgotten_;
};

}  // namespace onecopy::engine
