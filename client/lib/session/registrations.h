// What a client has registered with its daemon, which goes with each session.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/calls/turn.h"
#include "client/lib/session/registered_memory.h"
#include "client/lib/session/session.h"
#include "onecopy/buffer.h"
#include "onecopy/session.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

// Thread-safe.
class Registrations {
 public:
  // `session`: the number of the one that it was registered in; where that has ended already, it is
  // lost with it. `memory`: of the library's own, which can be registered again.
  void Add(const BufferInfo& info, uint64_t session, std::weak_ptr<RegisteredMemory> memory = {});
  // By name or id: the caller has deleted it.
  void Remove(const std::string& name);

  // Every session before this one has ended, and with it what it had. What can be registered again
  // is, also where that has failed before; what fails is tried again by the next Move and Restore.
  // What the thread's CallLimit leaves no time for is left to Finish.
  void Move(Session& session);
  // Registers again, in the session of the last Move, what that has left, or waits for the thread
  // that does, within the CallLimit. Cheap if nothing is left.
  void Finish(Session& session);
  // Registers again, in the session of the last Move, those of these buffers that were lost and can
  // be, within the CallLimit.
  void Restore(Session& session, const std::vector<std::string>& names);

  SessionInfo info() const;
  // `failure`, which a call that named these buffers came back with; where one of them was lost
  // with a session, that (BUFFER_LOST).
  Status Explain(Status failure, const std::vector<std::string>& names) const;

 private:
  struct Entry {
    BufferInfo info;
    std::weak_ptr<RegisteredMemory> memory;
  };
  struct Lost {
    LostBuffer told;
    std::weak_ptr<RegisteredMemory> memory;
    bool left = false;  // for Finish
  };
  using LostByName = std::multimap<std::string, Lost>;

  LostByName::const_iterator FindLost(const std::string& name) const ONECOPY_REQUIRES(mutex_);
  void Lose(Entry entry, Status why, bool left = false) ONECOPY_REQUIRES(mutex_);
  // Takes one that was left, out of what is lost; absent: none was.
  std::optional<Entry> TakeLeft() ONECOPY_REQUIRES(mutex_);
  // Registers it again, or notes it as lost; one that was closed meanwhile is neither. In the
  // thread's turn.
  void RegisterAgain(Session& session, Entry entry);

  Turn restoring_;  // before mutex_; while the daemon is asked
  mutable Mutex mutex_;
  uint64_t number_ ONECOPY_GUARDED_BY(mutex_) = 1;                   // of the session
  std::map<std::string, Entry> entries_ ONECOPY_GUARDED_BY(mutex_);  // by id
  std::vector<RestoredBuffer> restored_ ONECOPY_GUARDED_BY(mutex_);
  LostByName lost_ ONECOPY_GUARDED_BY(mutex_);
  // Some is left, or is being registered. Changed under mutex_.
  std::atomic<bool> left_ = false;
};

}  // namespace onecopy::client
