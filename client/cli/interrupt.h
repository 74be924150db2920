// Ctrl-C, and a terminal that is lost.
#pragma once

#include <signal.h>

#include <stop_token>
#include <thread>

#include "transport/os/base/unique_fd.h"

namespace onecopy::cli {

// While it lives, the first SIGINT, SIGTERM or SIGHUP of the process requests a stop, and the
// second one ends the process at once with status 130. A signal that was ignored before stays
// ignored. At most one at a time; made before any thread that should not be interrupted, as threads
// inherit which signals they do not take.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return stop_.get_token(); }

 private:
  void Listen();

  std::stop_source stop_;
  sigset_t before_{};
  os::UniqueFd signals_;
  os::UniqueFd end_;
  std::thread thread_;
};

}  // namespace onecopy::cli
