// The program `onecopy`.
#include <fcntl.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "client/cli/program.h"

namespace {

// A standard stream that came closed must not become the number of another file of ours, to be read
// or written in its place. What is opened instead fails when it is used. (What libraries opened
// before main is refused by the copy itself.)
void FillClosedStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    static_cast<void>(::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace

int main(int argc, char** argv) {
  FillClosedStreams();
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return onecopy::cli::RunProgram(arguments, std::cout, std::cerr);
}
