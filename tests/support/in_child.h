// A part of a test that runs in a child of it, which was forked and runs no other program.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace onecopy::testing {

// What `body` returns there, as the child's exit status; 1000 and the signal where one ended it, as
// SIGALRM does a child that hangs. -1 where there is no child.
inline int InChild(const std::function<int()>& body) {
  constexpr unsigned kHangsAfterSeconds = 60;
  const pid_t child = ::fork();
  if (child < 0) return -1;
  if (child == 0) {
    ::alarm(kHangsAfterSeconds);
    ::_exit(body());
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace onecopy::testing
