// Where the daemon's sockets are.
#pragma once

#include <string>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::client {

// What the answer depends on. An empty string stands for a variable that is not set.
struct RunDirHints {
  std::string option;                       // as the caller named it
  std::string onecopy_run_dir;              // $ONECOPY_RUN_DIR
  std::string xdg_runtime_dir;              // $XDG_RUNTIME_DIR
  std::string system_dir = "/run/onecopy";  // of a daemon that the system runs

  static RunDirHints FromEnvironment(const std::string& option);
};

// The folder to use, and what else was looked at, for messages. Any thread; looks at the file
// system once.
struct RunDir {
  std::string path;
  std::vector<std::string> tried;
};
RunDir FindRunDir(const RunDirHints& hints);

inline constexpr char kAttachSocket[] = "attach.sock";
inline constexpr char kApiSocket[] = "api.sock";

// The failure to reach a daemon: UNAVAILABLE (DAEMON_UNREACHABLE), with how to start one.
Status Unreachable(const RunDir& run_dir, const std::string& why);

}  // namespace onecopy::client
