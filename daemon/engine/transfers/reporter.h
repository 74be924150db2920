// Tells other nodes how a transfer goes that this one receives.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/transfers/transfers.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Engine thread. One report to a node is under way at a time, and the next one says what is then
// the newest; a node that is out of reach is left alone, since it asks when it is back. Lives on
// until the last answer has come.
class Reporter : public std::enable_shared_from_this<Reporter> {
 public:
  Reporter(Context& context, Peers& peers, Transfers& transfers, TransferId id)
      : context_(context), peers_(peers), transfers_(transfers), id_(std::move(id)) {}

  void AddObserver(const std::string& node);

  // Progress is told a few times a second, anything else at once.
  void Report(bool progress_only);

 private:
  struct Observer {
    bool telling = false;
    bool news = false;  // something has changed since
  };

  void Tell(const std::string& node);

  Context& context_;
  Peers& peers_;
  Transfers& transfers_;
  const TransferId id_;
  std::map<std::string, Observer> observers_;
  os::Clock::time_point last_progress_;
};

}  // namespace onecopy::engine
