// A user's program: registers a sealed memfd and waits to be killed.
//
//   registrar RUN_DIR NAME BYTES [fork|array]
//
// With "array" the memory is ordinary memory of the process instead, all of it written.
//
// Prints "ready CHILD", where CHILD is the pid of a child that keeps every descriptor of this
// process open, with "fork", else 0. Each byte of the memory is 0x5a. Ends by itself, with its
// child, when standard input ends.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "onecopy/client.h"

namespace {

int Fail(const std::string& what) {
  std::fprintf(stderr, "registrar: %s\n", what.c_str());
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return Fail("RUN_DIR NAME BYTES [fork|array]");
  const std::string how = count > 4 ? arguments[4] : "";
  const uint64_t bytes = std::strtoull(arguments[3], nullptr, 10);
  const int fd = ::memfd_create("registrar", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return Fail("memfd");
  }
  // The beginning only: holes cost nothing.
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Fail("mmap");
  std::memset(memory, 0x5a, bytes < 65536 ? bytes : 65536);

  auto client = onecopy::Client::Connect({.run_dir = arguments[1], .program = "registrar"});
  if (!client.ok()) return Fail(client.status().ToString());
  std::vector<char> array(how == "array" ? bytes : 0, 0x5a);
  auto buffer = how == "array" ? client->RegisterMemory(arguments[2], array.data(), bytes)
                               : client->RegisterMemfd(arguments[2], fd, 0, bytes);
  if (!buffer.ok()) return Fail(buffer.status().ToString());

  const pid_t child = how == "fork" ? ::fork() : 0;
  const bool in_child = how == "fork" && child == 0;
  if (!in_child) {
    std::printf("ready %d\n", static_cast<int>(child));
    std::fflush(stdout);
  }
  char end = 0;
  while (::read(STDIN_FILENO, &end, 1) > 0) {
  }
  ::_exit(0);  // the child must not take the client apart
}
