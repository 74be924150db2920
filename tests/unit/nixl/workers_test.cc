#include "client/nixl/workers.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <fstream>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"

using namespace onecopy;
using onecopy::nixl::Workers;

namespace {

// In a child that may have no room for a thread's stack: 0 where that was told, and the task
// dropped.
int RunWithoutThreads(rlim_t bytes) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit = {bytes, bytes};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    // Stacks of threads that ended are had again: until there is none.
    std::vector<std::thread> idle;
    try {
      for (;;) idle.emplace_back([] { ::pause(); });
    } catch (const std::exception&) {
    }
    bool ran = false;
    Status status;
    {
      Workers workers(2);
      status = workers.Run([&ran] { ran = true; });
    }
    const bool told = status.code() == Code::kResourceExhausted &&
                      status.reason() == reasons::kQuota && !status.remedy().empty();
    ::_exit(told && !ran ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("a worker that cannot be started is an error, and its task is dropped") {
  if (testing::kAddressSanitizer) ONECOPY_SKIP("sanitizers need memory");
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  REQUIRE(statm >> pages);
  const rlim_t used = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  CHECK(RunWithoutThreads(used + (1 << 20)) == 0);
}

TEST_CASE("workers do all that they were given before they end") {
  std::atomic<int> done = 0;
  {
    Workers workers(2);
    for (int i = 0; i < 100; ++i) REQUIRE(workers.Run([&done] { ++done; }).ok());
  }
  CHECK(done == 100);
}
