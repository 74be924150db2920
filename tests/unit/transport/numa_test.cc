#include "transport/os/machine/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "tests/support/catch.h"
#include "transport/os/memory/mapping.h"

using namespace onecopy;

namespace {

// Of the calling thread.
std::vector<unsigned> Allowed() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<unsigned> cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace

TEST_CASE("lists of processors are read as the kernel writes them") {
  using List = std::vector<unsigned>;
  CHECK(*os::ParseCpuList("") == List{});
  CHECK(*os::ParseCpuList("0") == List{0});
  CHECK(*os::ParseCpuList("0-2,7,9-10") == List{0, 1, 2, 7, 9, 10});
  for (const char* text : {"-", "1-", "-1", "2-1", "0,", ",0", "0,,1", "a", "0-1x", " 0", "1024",
                           "0-99999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(os::ParseCpuList(text));
  }
}

TEST_CASE("a thread is bound to what it may use of the list, and else left as it is") {
  const std::vector<unsigned> before = Allowed();
  std::thread([&] {
    CHECK_FALSE(os::BindThread(""));
    CHECK_FALSE(os::BindThread("nonsense"));
    CHECK_FALSE(os::BindThread("1023"));  // no machine of ours has that many
    CHECK(Allowed() == before);
    CHECK(os::BindThread(std::to_string(before.front()) + ",1023"));
    CHECK(Allowed() == std::vector<unsigned>{before.front()});
  }).join();
  CHECK(Allowed() == before);
}

TEST_CASE("pages are asked for from a NUMA node") {
  constexpr uint64_t kBytes = 1 << 16;
  auto mapping = os::MapAnonymous(kBytes);
  REQUIRE_OK(mapping);
  CHECK_FALSE(os::PreferNumaNode(mapping->data(), kBytes, -1));
  CHECK_FALSE(os::PreferNumaNode(mapping->data(), kBytes, 1 << 20));
  if (!os::PreferNumaNode(mapping->data(), kBytes, 0)) ONECOPY_SKIP("this kernel places no pages");
  int policy = -1;
  REQUIRE(::syscall(SYS_get_mempolicy, &policy, nullptr, 0, mapping->data(), MPOL_F_ADDR) == 0);
  CHECK(policy == MPOL_PREFERRED);
  mapping->data()[0] = std::byte{1};
}
