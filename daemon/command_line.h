// The daemon's command line.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "daemon/config/config.h"
#include "onecopy/result.h"

namespace CLI {
class App;
}

namespace onecopy {

struct CommandLine {
  enum class Do { kServe, kPrintDefaultConfig, kCheckConfig };

  Do what = Do::kServe;
  std::string config_file;  // empty: none
  config::Overrides overrides;
};

// Prints help, the version or what is wrong, and gives the exit status, where there is nothing more
// to do.
struct Parsed {
  std::optional<CommandLine> command_line;
  int exit_status = 0;
};
Parsed ParseCommandLine(int argc, char** argv);

// Calls `use` with the definition of the command line, from which its manual and completions are
// made (deploy/manual).
void WithDaemonDefinition(const std::function<void(const CLI::App&)>& use);

}  // namespace onecopy
