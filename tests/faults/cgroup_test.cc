// A daemon in a control group that limits its memory.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "onecopy/size.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"

namespace cgroup_test {
namespace {

using namespace onecopy::testing;

// A sanitizer takes memory of its own.
constexpr uint64_t kBuffer = uint64_t{kAddressSanitizer ? 300 : 150} << 20;
constexpr uint64_t kLimit = 2 * kBuffer;

// A group with that limit, of whichever version this machine has.
class Group {
 public:
  Group() {
    const std::string name = "onecopy-test-" + std::to_string(::getpid());
    for (const auto& [root, limit] :
         {std::pair<std::string, std::string>{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
          {"/sys/fs/cgroup", "memory.max"}}) {
      std::error_code error;
      if (!std::filesystem::create_directory(root + "/" + name, error)) continue;
      folder_ = root + "/" + name;
      std::ofstream(folder_ + "/" + limit) << kLimit << std::flush;
      uint64_t set = 0;
      if (std::ifstream(folder_ + "/" + limit) >> set && set == kLimit) return;
      Remove();
    }
  }
  ~Group() { Remove(); }
  bool made() const { return !folder_.empty(); }
  std::string processes() const { return folder_ + "/cgroup.procs"; }

 private:
  void Remove() {
    if (made()) ::rmdir(folder_.c_str());
    folder_.clear();
  }
  std::string folder_;
};

void Enter(const std::string& processes) {
  const int fd = ::open(processes.c_str(), O_WRONLY);
  if (fd < 0 || ::write(fd, "0", 1) != 1) ::_exit(126);
  ::close(fd);
}

}  // namespace

TEST_CASE("buffers are promised no more than the daemon's control group has") {
  const Group group;
  if (!group.made()) ONECOPY_SKIP("this user cannot make a control group with a limit");
  NodeOptions options;
  options.in_child = [processes = group.processes()] { Enter(processes); };
  {
    Node east("east", options);
    const Kept kept(east);
    const auto create = [&](const std::string& name, const std::string& size) {
      return east.Run({"buffer", "create", name, "--size", size, "--memory", "host"});
    };
    CheckRefusedNaming(create("a", "1GiB"), 9, "RESOURCE_EXHAUSTED", "NO_MEMORY", "1 GiB");
    // What fits is there when it is needed, all of it, and what no longer fits is not promised.
    const std::string bytes = Payload(kBuffer);
    const std::string size = std::to_string(kBuffer);
    REQUIRE(create("b", size).exit_status == 0);
    CheckRefusedNaming(create("c", size), 9, "RESOURCE_EXHAUSTED", "NO_MEMORY",
                       onecopy::FormatBytes(kBuffer));
    east.Do({"cp", "-", "b"}, bytes);
    CheckRefusedNaming(create("c", size), 9, "RESOURCE_EXHAUSTED", "NO_MEMORY",
                       onecopy::FormatBytes(kBuffer));
    east.Do({"buffer", "rm", "b"});
    REQUIRE(create("c", size).exit_status == 0);
    kept.CheckUnchanged();
    CheckServes(east);
  }
}
}  // namespace cgroup_test
