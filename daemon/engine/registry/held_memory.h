// Has the holder keep the memory of this daemon's buffers.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/holder_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/record_texts.h"
#include "transport/core/contracts/region.h"

namespace onecopy::engine {

// The memory of one buffer, which survives this process.
struct Held {
  std::string request_id;  // see BufferRecord
  std::string request;
  HeldForm form;  // engine thread, once the memory has been made
  // Any thread. True once the buffer is gone: the holder releases the memory with the region.
  std::atomic<bool> over{false};
  bool hooked = false;  // used by the thread that makes the memory or holds it
};
using HeldRef = std::shared_ptr<Held>;

// Engine thread, except where another one is named. Without a holder every call does nothing.
class HeldMemory {
 public:
  // The holder outlives this and every region.
  explicit HeldMemory(Context& context) : context_(context), holder_(context.options.holder) {}

  bool on() const { return holder_ != nullptr; }
  // True while no holder is connected: buffers would not survive a restart.
  bool lost() const { return on() && watched_ < 0; }

  // For a buffer that is about to be made; null without a holder. `why_not`: not empty if it cannot
  // survive.
  HeldRef Begin(const std::string& why_not);
  // Worker's thread. Hands new memory to the holder. If that fails, the buffer is made all the
  // same, and the log says that it ends with the daemon.
  void Hold(Region& region, const HeldRef& held, const std::string& name) const;
  // For memory that the holder has already: releases it there once `held` is over and the region
  // ends.
  void Adopt(Region& region, const HeldRef& held) const;

  // Returns what the previous process left. Call it once.
  HolderApi::Left TakeLeft();
  // Memory that the previous process left, which no buffer uses.
  void Release(uint64_t number);
  // Memory that this process cannot restore. The holder keeps it under that number for the next
  // one.
  void HoldOn(uint64_t number, os::UniqueFd fd);
  // New memory gets numbers above this one.
  void BeginAbove(uint64_t number) { next_ = std::max(next_, number + 1); }

  // Call this if a buffer was made while no holder was connected. A holder may be there by now.
  void HoldLater();

  struct Holding {
    BufferId id;
    std::string name;
    RegionRef region;
    HeldRef held;
    HeldForm form;  // a copy of held->form
  };
  // When the holder is lost, finds another one and hands over all that `all` lists. Calls `done`
  // for each buffer whose form has changed.
  void Watch(std::function<std::vector<Holding>()> all, std::function<void(BufferId)> done);
  void Unwatch();  // at the engine's end

 private:
  // Returns how the memory is held from now on.
  HeldForm HoldNow(Region& region, const HeldRef& held, HeldForm form) const;
  void Renew();
  enum class Which { kAll, kUnheld };
  // One run at a time: a call during a run makes it run again.
  void HoldAgain(Which which);

  Context& context_;
  HolderApi* const holder_;
  uint64_t next_ = 2;  // the holder's client uses 1
  std::string told_;   // why no holder could be reached lately
  std::vector<std::pair<uint64_t, std::shared_ptr<const os::UniqueFd>>> held_on_;
  bool holding_ = false;  // HoldAgain runs
  bool again_ = false;
  bool again_all_ = false;
  std::function<std::vector<Holding>()> all_;
  std::function<void(BufferId)> done_;
  int watched_ = -1;
  os::EventLoop::TimerId timer_ = 0;
};

}  // namespace onecopy::engine
