// What every command needs.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "client/cli/output/document.h"
#include "onecopy/client.h"

namespace onecopy::cli {

struct GlobalOptions {
  std::string run_dir;
  bool json = false;
  bool quiet = false;
};

// One run of the program. Used by one thread.
class Session {
 public:
  Session(const GlobalOptions& options, std::ostream& out, std::ostream& err)
      : options_(options), out_(&out), err_(err) {}

  bool json() const { return options_.json; }
  bool quiet() const { return options_.quiet; }
  const std::string& run_dir() const { return options_.run_dir; }  // as typed
  std::ostream& out() { return *out_; }
  std::ostream& err() { return err_; }

  // From now on out() is standard error, because the payload of a copy goes to standard output.
  void LeaveStdoutToPayload() { out_ = &err_; }

  // What a command that has said all that there is to say ends with.
  void SetOutcome(Code outcome) { outcome_ = outcome; }
  Code outcome() const { return outcome_; }

  // UNAVAILABLE (DAEMON_UNREACHABLE) without a daemon.
  Result<Client> Connect() const;

 private:
  const GlobalOptions& options_;
  std::ostream* out_;
  std::ostream& err_;
  Code outcome_ = Code::kOk;
};

// What was typed, ready to run. A failure is printed by the caller.
using Command = std::function<Status(Session&)>;

}  // namespace onecopy::cli
