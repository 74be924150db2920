#include "daemon/startup.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <exception>
#include <string>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/core/base/exit_status.h"
#include "transport/os/memory/mapping.h"

namespace onecopy {
namespace {

// An idle daemon has about 50 open.
constexpr rlim_t kMinDescriptors = 64;

std::string LimitText(decltype(RLIMIT_AS) which, bool bytes) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "no limit";
  return bytes ? FormatBytes(limit.rlim_cur) : std::to_string(limit.rlim_cur);
}

// Made beforehand: nothing may be allocated where it is needed.
std::array<char, 1024> limits_and_remedy{};

void Say(const char* text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, ::strlen(text));
}

// Only what a signal handler may call.
[[noreturn]] void End(const char* why) {
  Say("onecopyd: cannot start: ");
  Say(why);
  Say(limits_and_remedy.data());
  ::_exit(ExitStatusOf(Code::kResourceExhausted));
}

void OnAbort(int) {
  End("a library failed, probably from a lack of memory, threads or open files");
}

[[noreturn]] void OnTerminate() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::exception& failure) {
    End(failure.what());
  } catch (...) {
  }
  End("the C++ runtime ended the daemon (std::terminate) without a reason");
}

std::terminate_handler terminate_before = nullptr;

}  // namespace

Status CheckDescriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kMinDescriptors) {
    return OkStatus();
  }
  return {Code::kResourceExhausted, reasons::kNoMemory,
          "this process may open " + std::to_string(limit.rlim_cur) +
              " files, and a daemon without any client needs at least " +
              std::to_string(kMinDescriptors),
          "raise the limit on open files: ulimit -n, or LimitNOFILE= of the unit; each client and "
          "each buffer needs more"};
}

StartupGuard::StartupGuard() {
  const std::string text =
      "; the limits of this process are: address space " + LimitText(RLIMIT_AS, true) + ", files " +
      LimitText(RLIMIT_NOFILE, false) + ", length of a file " + LimitText(RLIMIT_FSIZE, true) +
      ", threads of its user " + LimitText(RLIMIT_NPROC, false) +
      "\n  try: raise them: ulimit -v, -n, -f and -u, or LimitAS=, LimitNOFILE=, LimitFSIZE=, "
      "LimitNPROC=, TasksMax= and MemoryMax= of the unit\n";
  std::strncpy(limits_and_remedy.data(), text.c_str(), limits_and_remedy.size() - 1);
  struct sigaction action {};
  action.sa_handler = OnAbort;
  ::sigaction(SIGABRT, &action, nullptr);
  terminate_before = std::set_terminate(OnTerminate);
}

StartupGuard::~StartupGuard() {
  std::set_terminate(terminate_before);
  ::signal(SIGABRT, SIG_DFL);
}

namespace {

// Each client, buffer and lane has one.
constexpr rlim_t kEnoughDescriptors = 4096;

}  // namespace

void TellOwnLimits(uint64_t slot_bytes) {
  rlimit limit{};
  if (const auto most = os::LockedMemoryLimit(); most && *most < slot_bytes) {
    log::Warning(
        "the limit on locked memory is low",
        {{"limit", FormatBytes(*most)},
         {"staging_slots", FormatBytes(slot_bytes)},
         {"so", "staging slots stay pageable, and RDMA devices cannot register more than that"},
         {"remedy", "LimitMEMLOCK=infinity in the service's unit, or ulimit -l unlimited"}});
  }
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kEnoughDescriptors) {
    log::Warning("the open-file limit is low",
                 {{"limit", std::to_string(limit.rlim_cur)},
                  {"so", "there is room for only a few clients, buffers and lanes"},
                  {"remedy", "LimitNOFILE= in the service's unit, or ulimit -n"}});
  }
}

}  // namespace onecopy
