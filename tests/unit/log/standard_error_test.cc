// Standard error as a pipe, in a child: it is the whole process's.
#include "daemon/log/standard_error.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "daemon/log/log.h"
#include "daemon/log/text_output.h"
#include "tests/support/catch.h"

namespace {

// Runs `body` in a child whose standard error is the pipe's end; 0 is its success.
template <typename Body>
int InChild(int stderr_fd, const Body& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(stderr_fd, STDERR_FILENO);
    ::_exit(body());
  }
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Writes until there is no room: 0 when the kernel then said so rather than waited.
int Fill(int fd) {
  const std::string block(4096, '.');
  while (::write(fd, block.data(), block.size()) > 0) {
  }
  return errno == EAGAIN ? 0 : 1;
}

struct Pipe {
  Pipe() { REQUIRE(::pipe(ends) == 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  int ends[2];
};

}  // namespace

TEST_CASE("standard error refuses what its reader has no room for, and only here") {
  const Pipe pipe;
  CHECK(InChild(pipe.ends[1], [] {
          onecopy::log::KeepStandardErrorFromBlocking();
          return Fill(STDERR_FILENO);
        }) == 0);
  CHECK((::fcntl(pipe.ends[1], F_GETFL) & O_NONBLOCK) == 0);  // shared with the child, untouched
}

TEST_CASE("the lines of the log still reach it, whole") {
  const Pipe pipe;
  CHECK(InChild(pipe.ends[1], [] {
          onecopy::log::KeepStandardErrorFromBlocking();
          onecopy::log::KeepStandardErrorFromBlocking();  // once more changes nothing
          onecopy::log::MakeStderrOutput()->Write({onecopy::log::Level::kInfo, "said", {}});
          return 0;
        }) == 0);
  char line[256] = {};
  REQUIRE(::read(pipe.ends[0], line, sizeof line - 1) > 0);
  CHECK(std::string(line).ends_with(" info    said\n"));
}
