// The daemon's own memory, and what is said of it, in the hands of a keeper.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/keeper_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/kept_records.h"
#include "transport/core/region.h"

namespace onecopy::engine {

// Memory of one buffer that is to outlive the process.
struct Held {
  std::string request_id;  // see BufferRecord
  std::string request;
  HeldForm form;  // engine thread, once the memory has been made
  // Any thread: the memory is to go with the buffer, and the keeper's hold on it.
  std::atomic<bool> over{false};
  bool hooked = false;  // the thread that makes or holds it
};
using HeldRef = std::shared_ptr<Held>;

// Engine thread, where nothing else is said. Without a keeper every call does nothing.
class Kept {
 public:
  // `keeper` outlives this and every region; null: all memory ends with the process.
  explicit Kept(Context& context) : context_(context), keeper_(context.options.keeper) {}

  bool on() const { return keeper_ != nullptr; }
  // Whether nothing holds now what is to outlive the process.
  bool lost() const { return on() && watched_ < 0; }

  // Whether the next process will mean the same user by that: the kernel may give the numbers of a
  // container's namespaces to another one while no daemon runs.
  bool Tells(const Owner& owner) const;

  // For a buffer that is going to be made for that owner; null without a keeper.
  HeldRef Begin(const Owner& owner);
  // Worker's thread: has the keeper hold what has just been made. Where it cannot, the buffer is
  // made all the same, and the log says that it will end with the daemon.
  void Hold(Region& region, const HeldRef& held, const std::string& name) const;

  // The same for memory that the keeper has from an earlier process.
  void Adopt(Region& region, const HeldRef& held) const;

  // They come, change, or go. A record that has no room is told in the log.
  void Put(const BufferRecord& record);
  void Put(const GrantRecord& record);
  // Its number, for EraseTicket; 0: there is no room.
  uint64_t Put(const TicketRecord& record);
  bool Put(const ArrivingRecord& record);  // whether there is room
  void PutArrived(const TransferId& id, uint64_t bytes);
  void PutNode(const std::string& key, const std::string& name) {
    PutText(key, name, key, Weight::kMajor);
  }
  void Erase(BufferId id) {
    if (on()) Erase(KeyOf(id));
  }
  void Erase(const GrantId& id) {
    if (on()) Erase(KeyOf(id));
  }
  void EraseTicket(uint64_t record) {
    if (record != 0) Erase(KeyOfTicket(record));
  }
  void EraseArriving(const TransferId& id);

  // What the process before has left; once.
  KeeperApi::Left TakeLeft();
  // What of that is not used any more.
  void Drop(const std::string& key, uint64_t number);
  // The numbers of new memory begin above that.
  void BeginAbove(uint64_t number) { next_ = std::max(next_, number + 1); }
  void BeginTicketsAbove(uint64_t number) { next_ticket_ = std::max(next_ticket_, number + 1); }

  // A buffer was made while nothing could hold it: now, if that has changed meanwhile.
  void HoldLater();

  // What is to be held, of all buffers.
  struct Holding {
    BufferId id;
    std::string name;
    RegionRef region;
    HeldRef held;
    HeldForm form;  // of `held`, now
  };
  // Memory that a later process may still restore: held on, under that number.
  void HoldOn(uint64_t number, os::UniqueFd fd);
  // Whenever the keeper has lost all: `all` says what it is to hold again, and `done` hears of each
  // that it does, or not.
  void Watch(std::function<std::vector<Holding>()> all, std::function<void(BufferId)> done);
  void Unwatch();  // at the engine's end

 private:
  void Erase(const std::string& key);
  enum class Weight { kMajor, kMinor };
  // False where there is no room: nothing has changed then.
  bool PutText(const std::string& key, const std::string& text, const std::string& what,
               Weight weight);
  // The form under which it is held from now on.
  HeldForm HoldNow(Region& region, const HeldRef& held, HeldForm form) const;
  void Renew();
  // Of all buffers, or of those that could not be held lately; one after the other.
  enum class Which { kAll, kUnheld };
  void HoldAgain(Which which);

  Context& context_;
  KeeperApi* const keeper_;
  uint64_t next_ = 2;  // the first is the keeper's own
  uint64_t next_ticket_ = 1;
  std::string told_;  // why nothing could be held lately
  os::Clock::time_point told_full_ = {};
  std::vector<std::pair<uint64_t, std::shared_ptr<const os::UniqueFd>>> held_on_;
  bool holding_ = false;  // HoldAgain is under way
  bool again_ = false;    // and more has come meanwhile
  bool again_all_ = false;
  std::function<std::vector<Holding>()> all_;
  std::function<void(BufferId)> done_;
  int watched_ = -1;
  os::EventLoop::TimerId timer_ = 0;
};

}  // namespace onecopy::engine
