// Arrivals in this node's buffers, kept until a watcher has acknowledged them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/engine/api/client_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/buffers.h"
#include "onecopy/arrival.h"

namespace onecopy::engine {

// Engine thread. The caller has checked the right to write, or to watch. What is kept for a watch,
// or by a buffer, is charged to the buffer's owner, or to that owner's node.
class Arrivals {
 public:
  using WatchId = ClientApi::WatchId;

  // A place for one arrival of a buffer, from when it is promised until it is dealt with.
  class Room {
   public:
    explicit operator bool() const { return place_ != nullptr; }

   private:
    friend class Arrivals;
    struct Place {
      explicit Place(std::shared_ptr<size_t> of) : taken(std::move(of)) { ++*taken; }
      ~Place() { --*taken; }
      Place(const Place&) = delete;
      Place& operator=(const Place&) = delete;
      const std::shared_ptr<size_t> taken;  // of the buffer
    };
    Ledger::Charge charge_;
    std::unique_ptr<Place> place_;
  };

  Arrivals(Context& context, Buffers& buffers);

  // Reserves room, before a transfer begins, for an arrival that must not be dropped: one with a
  // message (of so many bytes; 0: none), and each one of a buffer that keeps arrivals.
  // FAILED_PRECONDITION (NOT_WATCHED) for a message without a watcher; RESOURCE_EXHAUSTED (QUOTA),
  // which names the limit.
  Result<Room> Reserve(const Buffer& buffer, size_t message_bytes);

  // It has arrived. Fills in what is known here: buffer, sequence and time. Without a reserved
  // `room` it is dropped if there is none now. Whether a watcher is told, now or later.
  bool Deliver(const Buffer& buffer, Arrival arrival, Room room);

  // Of one buffer, or of all that the session of `who` has registered or registers later. `news`
  // runs whenever Take may have something new to say, but not before this has returned.
  // RESOURCE_EXHAUSTED (QUOTA).
  Result<WatchId> Watch(const Principal& who, std::optional<BufferId> buffer,
                        std::function<void()> news);
  // See ClientApi. A watch that there is not has nothing to tell.
  ArrivalsTold Take(WatchId watch);
  Status Acknowledge(const Principal& who, WatchId watch, uint64_t count);
  // What it had not acknowledged goes back to the buffers that keep arrivals.
  void Unwatch(WatchId watch);

  // The buffer is gone: its watches end when they have told what came before.
  void DropBuffer(BufferId buffer, const Status& why);
  // Its watches end at once. Before its buffers do.
  void EndSession(const SessionId& session);

 private:
  struct Item {
    Arrival arrival;
    BufferId buffer;
    Room room;
    uint64_t number = 0;        // in the order in which they came to this node
    std::vector<WatchId> told;  // or to be told
    bool returning = false;     // inside GiveBack alone
  };
  using ItemRef = std::shared_ptr<Item>;

  // Of each buffer that was ever watched, or for which something was kept.
  struct Box {
    std::shared_ptr<size_t> taken = std::make_shared<size_t>(0);
    uint64_t sequence = 0;
    std::deque<ItemRef> kept;
    std::set<WatchId> watches;  // of this buffer alone
  };

  struct Watcher {
    WatchId id = 0;
    SessionId session;
    std::optional<BufferId> buffer;
    std::function<void()> news;
    Ledger::Charge charge;
    std::deque<ItemRef> untold;
    std::deque<ItemRef> unacknowledged;
    uint64_t acknowledged = 0;
    uint64_t missed = 0;
    Status end;  // not OK: why it is over, once all is told
  };

  Result<Room> TakeRoom(const Buffer& buffer, size_t most, size_t message_bytes);
  static bool IdLess(const Watcher* a, const Watcher* b);
  // By their ids, those that have not ended.
  std::vector<Watcher*> WatchersOf(const Buffer& buffer);
  static bool Contains(const std::vector<Watcher*>& watchers, WatchId id);
  void TakeKept(BufferId buffer, Watcher& watcher);
  static void Append(const ItemRef& item, Watcher& watcher);
  void GiveBack(const std::vector<Watcher*>& ending);

  Context& context_;
  Buffers& buffers_;
  const size_t per_buffer_;
  std::map<BufferId, Box> boxes_;
  std::map<WatchId, Watcher> watchers_;
  std::map<SessionId, std::set<WatchId>> by_session_;
  WatchId next_watch_ = 1;
  uint64_t next_item_ = 0;
};

}  // namespace onecopy::engine
