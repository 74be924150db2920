// Limits of control groups, read from trees as kernels show them.
#include "transport/os/machine/cgroup.h"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace onecopy;

namespace {

constexpr uint64_t kNoLimit = UINT64_MAX;

struct Tree {
  testing::TempFolder folder;

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  uint64_t Free() const { return os::CgroupFreeBytes(folder / "membership", folder / "cgroup"); }
};

}  // namespace

TEST_CASE("without groups, and in groups without limits, nothing is limited") {
  const Tree tree;
  CHECK(tree.Free() == kNoLimit);
  tree.Write("membership", "0::/\n");
  CHECK(tree.Free() == kNoLimit);
  tree.Write("cgroup/a/memory.max", "max\n");
  tree.Write("cgroup/a/memory.current", "5000\n");
  tree.Write("membership", "0::/a\n");
  CHECK(tree.Free() == kNoLimit);
  tree.Write("membership", "nonsense\n\n::\n0:\n");
  CHECK(tree.Free() == kNoLimit);
}

TEST_CASE("the tightest group above counts, by either limit, and cache is free") {
  const Tree tree;
  tree.Write("membership", "0::/a/b/c\n");
  tree.Write("cgroup/a/memory.max", "1000\n");
  tree.Write("cgroup/a/memory.current", "400\n");
  CHECK(tree.Free() == 600);
  tree.Write("cgroup/a/b/c/memory.max", "500\n");
  tree.Write("cgroup/a/b/c/memory.current", "300\n");
  CHECK(tree.Free() == 200);
  tree.Write("cgroup/a/b/c/memory.stat", "anon 10\ninactive_file 120\nactive_file 7\n");
  CHECK(tree.Free() == 320);
  tree.Write("cgroup/a/b/memory.high", "310\n");
  tree.Write("cgroup/a/b/memory.current", "300\n");
  CHECK(tree.Free() == 10);
  tree.Write("cgroup/a/b/memory.current", "400\n");
  CHECK(tree.Free() == 0);
}

TEST_CASE("version 1 is known, alone and beside version 2") {
  const Tree tree;
  tree.Write("membership", "9:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n");
  tree.Write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.Write("cgroup/memory/a/b/memory.limit_in_bytes", "1000\n");
  tree.Write("cgroup/memory/a/b/memory.usage_in_bytes", "900\n");
  CHECK(tree.Free() == 100);
  tree.Write("cgroup/memory/a/b/memory.stat", "inactive_file 1\ntotal_inactive_file 50\n");
  CHECK(tree.Free() == 150);
  tree.Write("membership", "4:hugetlb,memory:/a/b\n0::/u\n");
  tree.Write("cgroup/unified/u/memory.max", "70\n");
  CHECK(tree.Free() == 70);
}

TEST_CASE("a container that sees its group at the top of the tree is held to it") {
  const Tree tree;
  tree.Write("membership", "4:memory:/docker/0123\n");
  tree.Write("cgroup/memory/memory.limit_in_bytes", "1000\n");
  tree.Write("cgroup/memory/memory.usage_in_bytes", "100\n");
  CHECK(tree.Free() == 900);
}
