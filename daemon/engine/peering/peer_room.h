// Which nodes have room among the peers: there can be only so many.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// A peer may be hidden: it was lost, and may never return. It keeps its place for a while, or until
// a new peer needs the place: then the peer that has been hidden for longest leaves. A hidden peer
// for which something waits does not leave. A discovered node that finds no room is left out, and
// becomes a peer as soon as there is room. Engine thread.
class PeerRoom {
 public:
  // What it calls: in Make, and by itself on the loop.
  struct Calls {
    // The nodes for which something waits.
    std::function<std::set<std::string>()> awaited;
    // Ends the peer. Calls Leave.
    std::function<void(const std::string& name, const std::string& why)> remove;
    // A node that was left out has room now, or is a peer already: it was discovered at `address`.
    // Calls Enter.
    std::function<void(const std::string& name, const std::string& address)> take;
  };

  // `most`: how many peers there can be. `keep`: how long a hidden peer keeps its place.
  PeerRoom(os::EventLoop& loop, size_t most, os::Clock::duration keep, Calls calls)
      : loop_(loop), most_(most), keep_(keep), calls_(std::move(calls)) {}

  // Whether there is room for one more peer. If not, removes hidden ones until there is.
  bool Make();
  // Gives the node a place as a peer, even if there is no room.
  void Enter(const std::string& name) { places_.try_emplace(name); }
  // It is not a peer any more.
  void Leave(const std::string& name);

  // Returns false if the peer was hidden before: it keeps its turn to leave.
  bool Hide(const std::string& name);
  // It is not hidden any more.
  void Show(const std::string& name);
  bool IsHidden(const std::string& name) const;

  // The node was discovered at `address`, and found no room.
  void LeaveOut(const std::string& name, const std::string& address) {
    left_out_.insert_or_assign(name, address);
  }
  void ForgetLeftOut() { left_out_.clear(); }

  void Stop();  // nothing leaves or is taken by itself any more

 private:
  struct Place {
    uint64_t hidden = 0;             // its number in hidden_; 0: it is not hidden
    os::EventLoop::TimerId due = 0;  // when it has been hidden for too long
  };

  void LeaveLater(const std::string& name);
  void TakeLeftOut();
  void TakeLeftOutSoon();

  os::EventLoop& loop_;
  const size_t most_;
  const os::Clock::duration keep_;
  const Calls calls_;
  std::unordered_map<std::string, Place> places_;
  std::map<uint64_t, std::string> hidden_;  // the one that has been hidden for longest comes first
  uint64_t next_hidden_ = 1;
  std::map<std::string, std::string> left_out_;  // their addresses
  os::EventLoop::TimerId taking_ = 0;
};

}  // namespace onecopy::engine
