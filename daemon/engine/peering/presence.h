// Which nodes are still there, of those that have called and cannot be heard otherwise.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "daemon/engine/base/context.h"
#include "transport/os/event_loop.h"

namespace onecopy::engine {

// Engine thread. A node that this one is connected to is seen by its heartbeats. Of one that only
// calls, or that was lost, nothing but its silence tells that it has gone: what this node has
// promised it then goes, rather than to be kept for minutes.
class Presence {
 public:
  explicit Presence(Context& context) : context_(context) {}

  // Runs with each node that has gone, once for each time.
  void OnGone(std::function<void(const std::string& node)> gone) { gone_ = std::move(gone); }

  // A node that is not connected has called.
  void Heard(const std::string& node);
  // A node that was connected does not answer.
  void Lost(const std::string& node);
  // It is connected.
  void Met(const std::string& node) { until_.erase(node); }
  void Stop();

 private:
  void Await(const std::string& node, os::Clock::duration silence);
  void Look();

  Context& context_;
  std::function<void(const std::string&)> gone_;
  std::map<std::string, os::Clock::time_point> until_;
  os::EventLoop::TimerId timer_ = 0;  // while there is anybody to wait for
};

}  // namespace onecopy::engine
