#include "bench/daemons/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::bench {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{5000};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, after fork: nothing here may allocate.
[[noreturn]] void Become(pid_t parent, char** arguments, int output, int error) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before it could be followed
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = ::open("/dev/null", O_RDONLY);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  ::execv(arguments[0], arguments);
  ::_exit(127);
}

// Whether `fd` became readable in time; a signal to this process does not end the waiting.
bool BecomesReadable(int fd, milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (true) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
    pollfd wanted = {fd, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(std::max(left, milliseconds(0)).count()));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

}  // namespace

Result<Process> Process::Start(const std::string& program,
                               const std::vector<std::string>& arguments,
                               const std::string& error_file) {
  if (::access(program.c_str(), X_OK) != 0) {
    return os::ErrnoStatus(errno, "starting " + program);
  }
  const os::UniqueFd error(
      ::open(error_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!error) return os::ErrnoStatus(errno, "opening " + error_file);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return os::ErrnoStatus(errno, "making a pipe");
  Process process;
  process.output_ = os::UniqueFd(ends[0]);
  const os::UniqueFd theirs(ends[1]);
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers = Pointers(words);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) Become(parent, pointers.data(), theirs.get(), error.get());
  if (pid < 0) return os::ErrnoStatus(errno, "starting a process");
  process.pid_ = pid;
  process.ended_ = os::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.ended_) return os::ErrnoStatus(errno, "watching a process");
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      output_(std::move(other.output_)),
      ended_(std::move(other.ended_)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(output_, other.output_);
  std::swap(ended_, other.ended_);
  return *this;
}

Process::~Process() { End(); }

Result<std::string> Process::ReadLine(milliseconds limit) {
  std::string line;
  char next = 0;
  while (true) {
    if (!BecomesReadable(output_.get(), limit)) {
      return Status(Code::kDeadlineExceeded, reasons::kStalled,
                    "the started program prints nothing");
    }
    const ssize_t count = ::read(output_.get(), &next, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return Status(Code::kUnavailable, reasons::kDaemonUnreachable,
                    "the started program has ended");
    }
    if (next == '\n') return line;
    line.push_back(next);
  }
}

bool Process::EndsWithin(milliseconds limit) {
  return ended_ && BecomesReadable(ended_.get(), limit);
}

void Process::End() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGTERM);
  if (!EndsWithin(kPatience)) ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

}  // namespace onecopy::bench
