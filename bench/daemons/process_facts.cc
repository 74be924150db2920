#include "bench/daemons/process_facts.h"

#include <time.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::bench {
namespace {

// Of a line such as "RssAnon:      5012 kB"; 0 without such a line.
uint64_t NumberAfter(const std::string& text, const std::string& key) {
  const size_t at = text.find("\n" + key + ":");
  if (at == std::string::npos) return 0;
  uint64_t number = 0;
  std::istringstream(text.substr(at + key.size() + 2)) >> number;
  return number;
}

Result<std::string> ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    return Status(Code::kUnavailable, reasons::kDaemonUnreachable,
                  path + " cannot be read: the process has ended");
  }
  return text.str();
}

}  // namespace

Result<ResidentBytes> ReadResident(pid_t pid) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string text,
                           ReadText("/proc/" + std::to_string(pid) + "/status"));
  return ResidentBytes{NumberAfter(text, "RssAnon") * 1024, NumberAfter(text, "RssShmem") * 1024};
}

Result<double> ReadCpuSeconds(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  const int error = ::clock_getcpuclockid(pid, &clock);
  if (error != 0) return os::ErrnoStatus(error, "finding a process's clock");
  if (::clock_gettime(clock, &time) != 0) {
    return os::ErrnoStatus(errno, "reading a process's clock");
  }
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

Result<std::vector<ThreadUse>> ReadThreads(pid_t pid) {
  std::vector<ThreadUse> threads;
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    const auto name = ReadText(path + "/comm");
    const auto times = ReadText(path + "/schedstat");
    const auto status = ReadText(path + "/status");
    if (!name.ok() || !times.ok() || !status.ok()) continue;  // it has just ended
    ThreadUse thread;
    thread.id = std::stoi(entry->path().filename().string());
    thread.name = name->substr(0, name->find('\n'));
    uint64_t nanoseconds = 0;
    std::istringstream(*times) >> nanoseconds;
    thread.cpu_seconds = static_cast<double>(nanoseconds) / 1e9;
    thread.wakeups = NumberAfter(*status, "voluntary_ctxt_switches");
    threads.push_back(std::move(thread));
  }
  if (error) return os::ErrnoStatus(error.value(), "listing " + folder);
  return threads;
}

}  // namespace onecopy::bench
