#include "bench/tools/tool_mover.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "bench/daemons/process.h"
#include "bench/daemons/temp_folder.h"
#include "bench/measure/row.h"
#include "bench/tools/last_word.h"
#include "onecopy/reasons.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::bench {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kAgain{100};
constexpr int kTries = 30;  // the client may come before the server listens

std::string LogOf(const TempFolder& folder) { return folder.path() + "/log"; }

Result<Process> StartTool(const std::vector<std::string>& words, const TempFolder& folder) {
  return Process::Start(words[0], {words.begin() + 1, words.end()}, LogOf(folder));
}

}  // namespace

ToolMover::ToolMover(ToolPrograms programs, uint64_t bytes)
    : programs_(std::move(programs)), bytes_(bytes) {}

Result<ToolSaid> ToolMover::RunOnce() {
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<TempFolder> folder, TempFolder::Create());
  std::optional<Process> server;
  if (!programs_.server.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(server, StartTool(programs_.server, *folder));
  }
  std::string said;
  for (int i = 0; i < (server ? kTries : 1); ++i) {
    if (server) std::this_thread::sleep_for(kAgain);
    ONECOPY_ASSIGN_OR_RETURN(Process client, StartTool(programs_.client, *folder));
    while (true) {
      const Result<std::string> line = client.ReadLine(kPatience);
      if (!line.ok()) {
        if (line.status().code() == Code::kDeadlineExceeded) return line.status();
        break;  // it has ended
      }
      if (!line->empty()) said = *line;
      const std::optional<ToolSaid> result = programs_.read(*line);
      if (result && result->bytes_per_second > 0) return *result;
    }
  }
  return Status(Code::kUnavailable, kToolFailed,
                programs_.client[0] + " reported no rate" +
                    (said.empty() ? "" : ", but \"" + said + "\"") + LastWord(LogOf(*folder)));
}

Result<Moved> ToolMover::Move() {
  ONECOPY_ASSIGN_OR_RETURN(const ToolSaid said, RunOnce());
  verified_ = said.verified;
  return Moved{.seconds = static_cast<double>(bytes_) / said.bytes_per_second};
}

Result<std::string> FindTool(const std::string& name, const std::string& package) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin" : path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    std::string program = folder + "/" + name;
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return Status(Code::kNotFound, reasons::kFileNotFound, name + " is not installed",
                "install " + package);
}

Result<std::string> FreePort() {
  ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd listener, os::ListenTcp({"127.0.0.1", 0}, 1));
  ONECOPY_ASSIGN_OR_RETURN(const os::HostPort address, os::LocalAddress(listener.get()));
  return std::to_string(address.port);
}

}  // namespace onecopy::bench
