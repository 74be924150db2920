#include "transport/os/threads/helper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>

#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"

extern char** environ;

namespace onecopy::os {
namespace {

using Clock = std::chrono::steady_clock;

// What is killed is gone at once, unless it waits in the kernel.
constexpr std::chrono::seconds kPatienceWithTheKilled{2};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoStatus(errno, "making a pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<std::string> EnvironmentOf(const HelperRequest& request) {
  std::vector<std::string> all;
  for (const auto& [name, value] : request.environment) all.push_back(name + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool replaced = std::any_of(
        request.environment.begin(), request.environment.end(), [&](const auto& setting) {
          return text.starts_with(setting.first) && text.substr(setting.first.size(), 1) == "=";
        });
    if (!replaced) all.emplace_back(text);
  }
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Frees what posix_spawn wants, whatever happens.
struct SpawnSettings {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnSettings() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
};

Result<pid_t> Spawn(const HelperRequest& request, const Pipe& output, const Pipe& errors) {
  SpawnSettings settings;
  ::posix_spawn_file_actions_addopen(&settings.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&settings.actions, output.write.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.actions, errors.write.get(), STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&settings.actions, STDERR_FILENO + 1);
  if (!request.folder.empty()) {
    ::posix_spawn_file_actions_addchdir_np(&settings.actions, request.folder.c_str());
  }
  // As a program begins from a shell: nothing of this one's is blocked or ignored.
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&settings.attributes, &none);
  ::posix_spawnattr_setsigdefault(&settings.attributes, &all);
  ::posix_spawnattr_setpgroup(&settings.attributes, 0);
  ::posix_spawnattr_setflags(
      &settings.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> arguments = request.arguments;
  std::vector<std::string> environment = EnvironmentOf(request);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, arguments.front().c_str(), &settings.actions, &settings.attributes,
                    Pointers(arguments).data(), Pointers(environment).data());
  if (error != 0) return ErrnoStatus(error, "starting " + arguments.front());
  return pid;
}

// Until both streams have ended, or that time has come: the streams may outlive the process, in
// something that it has started.
class Reader {
 public:
  Reader(int output, int errors, int process, size_t most)
      : polled_{{{output, POLLIN, 0}, {errors, POLLIN, 0}, {process, POLLIN, 0}}}, most_(most) {}

  bool process_ended() const { return polled_[2].fd < 0; }

  void ReadUntil(Clock::time_point deadline, HelperOutcome& outcome) {
    while (true) {
      const bool streams_ended = polled_[0].fd < 0 && polled_[1].fd < 0;
      if (process_ended() && streams_ended) return;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) return;
      // What it said before it ended is in the pipes by then.
      const int patience = process_ended() ? 0 : static_cast<int>(left.count());
      const int ready = ::poll(polled_.data(), polled_.size(), patience);
      if (ready < 0 && errno != EINTR) return;
      if (ready == 0 && process_ended()) return;
      if (ready <= 0) continue;
      Take(polled_[0], outcome.output);
      Take(polled_[1], outcome.errors);
      if (polled_[2].revents != 0) polled_[2].fd = -1;
    }
  }

 private:
  void Take(pollfd& stream, std::string& text) const {
    if (stream.fd < 0 || stream.revents == 0) return;
    std::array<char, 4096> buffer{};
    const ssize_t got = ::read(stream.fd, buffer.data(), buffer.size());
    if (got == 0 || (got < 0 && errno != EINTR)) stream.fd = -1;
    if (got <= 0) return;
    text.append(buffer.data(), std::min(static_cast<size_t>(got), most_ - text.size()));
  }

  std::array<pollfd, 3> polled_;
  const size_t most_;
};

}  // namespace

std::string HelperOutcome::Describe(std::chrono::milliseconds limit) const {
  if (!ended) {
    return "did not end within " + std::to_string(limit.count()) + " ms and was killed" +
           (gone ? "" : ", which it has not followed so far");
  }
  if (signal != 0) {
    const char* name = sigabbrev_np(signal);
    return std::string("crashed (") +
           (name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name)) + ")";
  }
  return "ended with status " + std::to_string(exit_status);
}

Result<HelperOutcome> RunHelper(const HelperRequest& request) {
  ONECOPY_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  ONECOPY_ASSIGN_OR_RETURN(Pipe errors, MakePipe());
  const Clock::time_point deadline = Clock::now() + request.limit;
  ONECOPY_ASSIGN_OR_RETURN(const pid_t pid, Spawn(request, output, errors));
  output.write.Reset();
  errors.write.Reset();
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const int not_watched = process ? 0 : errno;
  HelperOutcome outcome;
  Reader reader(output.read.get(), errors.read.get(), process.get(), request.most_output);
  if (process) reader.ReadUntil(deadline, outcome);
  outcome.ended = process && reader.process_ended();
  // Before it is waited for: until then its number, and so its group's, is not reused.
  ::kill(-pid, SIGKILL);
  if (process && !outcome.ended) {
    pollfd waiting{process.get(), POLLIN, 0};
    const auto patience =
        std::chrono::duration_cast<std::chrono::milliseconds>(kPatienceWithTheKilled);
    outcome.gone = ::poll(&waiting, 1, static_cast<int>(patience.count())) > 0;
  }
  if (!outcome.gone) {
    std::thread([pid] { ::waitpid(pid, nullptr, 0); }).detach();
    return outcome;
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!process) return ErrnoStatus(not_watched, "watching " + request.arguments.front());
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  if (WIFEXITED(status)) outcome.exit_status = WEXITSTATUS(status);
  return outcome;
}

}  // namespace onecopy::os
