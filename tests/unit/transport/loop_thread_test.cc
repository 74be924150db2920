// Loops with threads of their own where the process may have no more.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"
#include "transport/os/threads/event_loop.h"

using namespace onecopy;

namespace {

// In a child that may have no more of something: 0 where no thread could be made, and that was
// told.
int MakeWithNoMore(decltype(RLIMIT_AS) what, rlim_t most) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit = {most, most};
    if (::setrlimit(what, &limit) != 0) ::_exit(2);
    std::vector<std::unique_ptr<os::LoopThread>> threads;
    Status status;
    while (status.ok() && threads.size() < 100) {
      auto made = os::LoopThread::Make("one-too-many");
      status = made.status();
      if (made.ok()) threads.push_back(std::move(*made));
    }
    const bool told = status.code() == Code::kResourceExhausted &&
                      status.message().find("\"one-too-many\"") != std::string::npos &&
                      !status.remedy().empty();
    ::_exit(told ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("a thread that cannot be made is an error, and not the end") {
  if (testing::kAddressSanitizer) {
    ONECOPY_SKIP("sanitizers need memory, and look at objects through pipes, which are files");
  }
  CHECK(MakeWithNoMore(RLIMIT_NOFILE, 0) == 0);
  // Room for what is said of it, and not for the stacks of so many threads.
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  REQUIRE(statm >> pages);
  const rlim_t used = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  CHECK(MakeWithNoMore(RLIMIT_AS, used + (1 << 20)) == 0);
}

TEST_CASE("a thread that is made runs what it is given") {
  auto thread = os::LoopThread::Make("one");
  REQUIRE_OK(thread);
  bool ran = false;
  (*thread)->RunSync([&] { ran = (*thread)->loop().InThread(); });
  CHECK(ran);
}
