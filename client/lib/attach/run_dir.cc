#include "client/lib/attach/run_dir.h"

#include <unistd.h>

#include <cstdlib>

#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

RunDirHints RunDirHints::FromEnvironment(const std::string& option) {
  RunDirHints hints;
  hints.option = option;
  hints.onecopy_run_dir = Variable("ONECOPY_RUN_DIR");
  hints.xdg_runtime_dir = Variable("XDG_RUNTIME_DIR");
  return hints;
}

RunDir FindRunDir(const RunDirHints& hints) {
  if (!hints.option.empty()) return {hints.option, {hints.option}};
  if (!hints.onecopy_run_dir.empty()) return {hints.onecopy_run_dir, {hints.onecopy_run_dir}};
  const std::string system_socket = hints.system_dir + "/" + kAttachSocket;
  if (hints.xdg_runtime_dir.empty() || ::access(system_socket.c_str(), F_OK) == 0) {
    return {hints.system_dir, {hints.system_dir}};
  }
  const std::string own_dir = hints.xdg_runtime_dir + "/onecopy";
  return {own_dir, {hints.system_dir, own_dir}};
}

Status Unreachable(const RunDir& run_dir, const std::string& why) {
  std::string looked;
  for (const std::string& path : run_dir.tried) looked += (looked.empty() ? "" : " and ") + path;
  return {Code::kUnavailable, reasons::kDaemonUnreachable,
          "no onecopyd answers in " + looked + ": " + why,
          "start one (`systemctl start onecopyd`, or `onecopyd --run-dir DIR`), or name the run "
          "directory of a running one with --run-dir or ONECOPY_RUN_DIR"};
}

}  // namespace onecopy::client
