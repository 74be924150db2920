// How tests start programs, from a process that has RDMA memory as well.
#include "tests/support/process.h"

#include <sys/mman.h>

#include <cstdio>
#include <fstream>

#include "tests/support/catch.h"

using onecopy::testing::Process;

TEST_CASE("a program starts although the heap is not passed on to children") {
  unsigned long begin = 0;
  unsigned long end = 0;
  {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (!line.ends_with("[heap]")) continue;
      REQUIRE(std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2);
    }
  }
  if (end == 0) ONECOPY_SKIP("the heap of this build lies elsewhere");
  // As libibverbs does with the pages of registered memory, whatever else is on them.
  auto* heap = reinterpret_cast<void*>(begin);
  REQUIRE(::madvise(heap, end - begin, MADV_DONTFORK) == 0);
  const int status = Process({.program = "/bin/true"}).Wait();
  REQUIRE(::madvise(heap, end - begin, MADV_DOFORK) == 0);
  CHECK(status == 0);
}
