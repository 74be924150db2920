// onecopy-holder: holds the memory of a node's buffers while its onecopyd is replaced.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "daemon/holder/holder.h"
#include "transport/core/base/exit_status.h"

namespace {

using onecopy::Code;
using onecopy::ExitStatusOf;
using onecopy::Status;

constexpr char kUsage[] =
    "usage: onecopy-holder [--background] SOCKET\n"
    "\n"
    "Holds the memory of a node's buffers while its onecopyd is replaced by another one. SOCKET "
    "is\n"
    "what onecopyd is told with --holder. With --background it returns once it listens, and ends\n"
    "by itself when no daemon has asked for the memory within [restart] hold_for.\n";

// Every buffer is a descriptor.
void UseAllDescriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Continues in a child that has none of the caller's terminal, process group and open files. Then
// ends the calling process.
bool GoOnInBackground() {
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) return false;
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child > 0) {
    ::close(ready[1]);
    char byte = 0;
    ::_exit(::read(ready[0], &byte, 1) == 1 ? 0 : ExitStatusOf(Code::kResourceExhausted));
  }
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || ::chdir("/") != 0) return false;
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, stream);
  const bool told = ::write(ready[1], "", 1) == 1;
  ::close(ready[0]);
  ::close(ready[1]);
  return told;
}

// Whether the path still leads to that file.
bool IsFile(const char* path, const struct stat& file) {
  struct stat now {};
  return ::stat(path, &now) == 0 && now.st_dev == file.st_dev && now.st_ino == file.st_ino;
}

int Fail(const Status& status) {
  std::fprintf(stderr, "onecopy-holder: %s\n", status.ToString().c_str());
  return ExitStatusOf(status.code());
}

}  // namespace

int main(int argc, char** argv) {
  const bool background = argc > 1 && std::string(argv[1]) == "--background";
  const int first = background ? 2 : 1;
  if (argc != first + 1 || argv[first][0] == '-' || argv[first][0] == '\0') {
    std::fputs(kUsage, argc == 2 && std::string(argv[1]) == "--help" ? stdout : stderr);
    return argc == 2 && std::string(argv[1]) == "--help" ? 0 : ExitStatusOf(Code::kInvalidArgument);
  }
  ::signal(SIGHUP, SIG_IGN);
  UseAllDescriptors();
  // Before there is anything that a fork would share: the loop's descriptors are this process's.
  onecopy::os::EventLoop loop;
  struct stat own {};
  auto holder = onecopy::holder::Holder::Serve(loop, argv[first], [&] {
    if (!background) return;
    // The listener is still open here, so no daemon has started another holder yet. Removing the
    // file now cannot remove the socket of that other holder.
    if (IsFile(argv[first], own)) ::unlink(argv[first]);
    loop.Stop();
  });
  if (!holder.ok()) return Fail(holder.status());
  if (::stat(argv[first], &own) != 0) own = {};
  if (background && !GoOnInBackground()) return ExitStatusOf(Code::kResourceExhausted);
  ::sd_notify(0, "READY=1");
  loop.Run();
  return 0;
}
