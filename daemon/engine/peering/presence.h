// Which nodes are still there, of those that have called and cannot be heard otherwise.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Engine thread. A node that this one is connected to is seen by its heartbeats. Of one that only
// calls, or that was lost, nothing but its silence tells that it has gone: what this node has
// promised it then goes, rather than to be kept for minutes.
class Presence {
 public:
  // So many nodes that call are awaited at a time. What this node promised to others expires by
  // itself.
  static constexpr size_t kMost = 4096;

  Presence(os::EventLoop& loop, std::chrono::milliseconds heartbeat)
      : loop_(loop), heartbeat_(heartbeat) {}

  // Runs with each node that has gone, once for each time.
  void OnGone(std::function<void(const std::string& node)> gone) { gone_ = std::move(gone); }

  // A node that is not connected has called.
  void Heard(const std::string& node);
  // A node that was connected does not answer.
  void Lost(const std::string& node);
  // It is connected.
  void Met(const std::string& node) { until_.erase(node); }
  void Stop();

  size_t awaited() const { return until_.size(); }  // nodes

 private:
  void Await(const std::string& node, os::Clock::duration silence);
  void Look();

  os::EventLoop& loop_;
  const std::chrono::milliseconds heartbeat_;
  std::function<void(const std::string&)> gone_;
  std::map<std::string, os::Clock::time_point> until_;
  os::EventLoop::TimerId timer_ = 0;  // while there is anybody to wait for
};

}  // namespace onecopy::engine
