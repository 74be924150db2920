// Notifications on their way to another agent.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "client/nixl/workers.h"
#include "onecopy/status.h"
#include "transport/core/base/mutex.h"

namespace onecopy::nixl {

// Thread-safe. What goes to one agent goes in the order in which it came, one after the other, by a
// worker or by the thread that waits for one of its own; agents do not wait for each other. The
// workers must outlive it, and nothing may be sent any more when it goes.
class Outbox {
 public:
  // Delivers one, and blocks as long as that takes.
  using Deliver = std::function<Status(const std::string& agent, const std::string& text)>;

  Outbox(Workers& workers, Deliver deliver) : workers_(workers), deliver_(std::move(deliver)) {}

  // Returns once it is delivered, or has failed.
  Status Send(const std::string& agent, const std::string& text);

  // Gives it to a worker. If an earlier one to that agent failed, this call returns that failure
  // and sends nothing: so every failure is reported. Blocks while very much waits for that agent.
  Status Post(const std::string& agent, std::string text);

 private:
  // So many bytes may wait for one agent.
  static constexpr uint64_t kMostBytes = uint64_t{64} << 20;

  struct Letter {
    std::string text;
    bool awaited = false;  // by Send
    bool done = false;
    Status outcome = {};
  };
  struct Agent {
    std::deque<std::shared_ptr<Letter>> waiting;
    uint64_t bytes = 0;      // of these, and of the one that is on its way
    bool busy = false;       // a thread delivers one
    bool scheduled = false;  // a worker will
    Status failure = {};     // of one that no caller waited for
  };

  std::shared_ptr<Letter> Put(Agent& agent, std::string text, bool awaited)
      ONECOPY_REQUIRES(mutex_);
  // Delivers what waits, unless another thread does; if `awaited` is not null, at least until that
  // is delivered.
  void Work(const std::string& name, const Letter* awaited);

  Workers& workers_;
  const Deliver deliver_;
  Mutex mutex_;
  Condition changed_;
  std::map<std::string, Agent> agents_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::nixl
