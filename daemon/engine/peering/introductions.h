// Which nodes are introduced to each other now, of many that are to be.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "daemon/engine/base/context.h"
#include "transport/os/event_loop.h"

namespace onecopy::engine {

// Engine thread. An introduction takes a connection and a handshake at both ends. Daemons of a
// fleet that start together would begin all of theirs at once, and none would end in time: so each
// has a few under way, in an order of chance, so that no node is everybody's first.
class Introductions {
 public:
  // How many are under way at a time.
  static constexpr size_t kMost = 8;

  // `greet` runs with each node that has its turn, inside Await or later.
  Introductions(Context& context, std::function<void(const std::string& node)> greet)
      : context_(context), greet_(std::move(greet)) {}

  // The node is to be greeted; a second time says nothing new. `first`: before those that wait, as
  // it is known to be there.
  void Await(const std::string& node, bool first);
  // It has answered, failed, or is greeted no more. One that says nothing for a while
  // (Options::introduction_turn) has had its turn, too, so that a silent node keeps no other one
  // waiting.
  void Ended(const std::string& node);
  void Stop();  // the rest is never greeted

  size_t waiting() const { return waiting_.size(); }
  size_t under_way() const { return under_way_.size(); }

 private:
  void Next();

  Context& context_;
  const std::function<void(const std::string&)> greet_;
  std::deque<std::string> waiting_;
  std::map<std::string, os::EventLoop::TimerId> under_way_;
  bool choosing_ = false;  // inside Next, which an answer that comes at once would enter again
};

}  // namespace onecopy::engine
