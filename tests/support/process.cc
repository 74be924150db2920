#include "tests/support/process.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

namespace onecopy::testing {
namespace {

constexpr int kPatienceMs = 60'000;

[[noreturn]] void ThrowErrno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// The end to read from, and the one to write to.
std::pair<os::UniqueFd, os::UniqueFd> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) ThrowErrno("pipe");
  return {os::UniqueFd(ends[0]), os::UniqueFd(ends[1])};
}

void WaitReadable(int fd, const std::string& what) {
  pollfd wanted = {fd, POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&wanted, 1, kPatienceMs)) < 0 && errno == EINTR) {
  }
  if (ready <= 0) throw std::runtime_error("a minute passed without " + what);
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Child {
  pid_t parent;
  const char* program;
  char** arguments;
  char** environment;
  int in;
  int out;
  int err;  // -1: the parent's
  const std::function<void()>& in_child;
};

// In the child: nothing here may allocate.
[[noreturn]] void Become(const Child& child) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) ::_exit(127);  // it died before it could be followed
  ::dup2(child.in, 0);
  ::dup2(child.out, 1);
  if (child.err >= 0) ::dup2(child.err, 2);
  if (child.in_child) child.in_child();
  ::execve(child.program, child.arguments, child.environment);
  ::_exit(127);
}

// In a process with RDMA memory (libibverbs after ibv_fork_init, which UCX calls) pages of the heap
// are missing from a forked child (MADV_DONTFORK), the program's name and arguments among them at
// times; a child of vfork has its parent's. What a test does in the child, such as changing its
// user, wants memory and threads of its own.
[[gnu::noinline]] pid_t Start(const Child& child) {
  const pid_t pid = child.in_child ? ::fork() : ::vfork();
  if (pid == 0) Become(child);
  return pid;
}

}  // namespace

std::filesystem::path ProgramFolder() {
  if (const char* folder = std::getenv("ONECOPY_BIN_DIR"); folder != nullptr) return folder;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../..";
}

Process::Process(const ProcessOptions& options) {
  const std::string program = options.program.find('/') == std::string::npos
                                  ? (ProgramFolder() / options.program).string()
                                  : options.program;
  if (!std::filesystem::exists(program)) throw std::runtime_error("there is no " + program);
  std::vector<std::string> arguments = {program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = options.environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.emplace_back(*variable);
  }
  std::vector<char*> argv = Pointers(arguments);
  std::vector<char*> envp = Pointers(environment);
  os::UniqueFd in;
  if (options.input_file.empty()) {
    std::tie(in, in_) = MakePipe();
  } else {
    in = os::UniqueFd(::open(options.input_file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!in) ThrowErrno("open " + options.input_file);
  }
  os::UniqueFd err;
  if (!options.error_file.empty()) {
    err = os::UniqueFd(
        ::open(options.error_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!err) ThrowErrno("open " + options.error_file);
  }
  os::UniqueFd theirs;
  std::tie(out_, theirs) = MakePipe();
  pid_ = Start({::getpid(), program.c_str(), argv.data(), envp.data(), in.get(), theirs.get(),
                err.get(), options.in_child});
  if (pid_ < 0) ThrowErrno("starting " + program);
  ended_ = os::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!ended_) ThrowErrno("pidfd_open");
}

Process::~Process() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string Process::ReadLine() {
  std::string line;
  char next = 0;
  while (line.empty() || line.back() != '\n') {
    WaitReadable(out_.get(), "a line of output");
    if (::read(out_.get(), &next, 1) != 1) break;
    line.push_back(next);
  }
  return line;
}

std::string Process::ReadAll() {
  std::string text;
  char piece[4096];
  while (true) {
    WaitReadable(out_.get(), "output");
    const ssize_t count = ::read(out_.get(), piece, sizeof piece);
    if (count <= 0) return text;
    text.append(piece, static_cast<size_t>(count));
  }
}

void Process::Write(const std::string& text) {
  if (::write(in_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    ThrowErrno("write to the process");
  }
}

void Process::Signal(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);
}

int Process::Wait() {
  WaitReadable(ended_.get(), "the end of the process");
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) ThrowErrno("waitpid");
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

std::function<void()> BecomeUser(uid_t uid) {
  return [uid] {
    if (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(126);
  };
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!file.write(text.data(), static_cast<std::streamsize>(text.size())).flush()) {
    throw std::runtime_error("cannot write " + path.string());
  }
}

void WaitUntil(const std::string& what, const std::function<bool()>& question) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (!question()) {
    if (std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("a minute passed, and still not: " + what);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace onecopy::testing
