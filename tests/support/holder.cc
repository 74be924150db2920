#include "tests/support/holder.h"

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace onecopy::testing {

pid_t HolderOf(const std::string& run_dir) {
  const std::string wanted = run_dir + "/holder.sock";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    if (line.find("onecopy-holder") != std::string::npos &&
        line.find(wanted) != std::string::npos) {
      return pid;
    }
  }
  return 0;
}

bool HasEnded(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string line((std::istreambuf_iterator<char>(file)), {});
  const size_t name_end = line.rfind(") ");
  return name_end == std::string::npos || line.substr(name_end + 2, 1) == "Z";
}

size_t MemoryFilesOf(pid_t pid) {
  size_t count = 0;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.starts_with("/memfd:")) ++count;
  }
  return count;
}

HolderEnds::~HolderEnds() {
  if (const pid_t holder = HolderOf(run_dir_); holder > 0) ::kill(holder, SIGKILL);
}

}  // namespace onecopy::testing
