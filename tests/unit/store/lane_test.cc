// On which processors a lane's threads run, and the kernel's own for its ring.
#include "transport/store/posix/lane.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/machine/numa.h"
#include "transport/store/posix/lanes.h"

using namespace onecopy;
using namespace onecopy::posix;
using namespace onecopy::testing;

namespace {

constexpr size_t kBytes = 1 << 20;

Uid Self() { return {::getuid()}; }

std::set<std::string> Threads() {
  std::set<std::string> ids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    ids.insert(task.path().filename());
  }
  return ids;
}

// Where this process's threads whose names begin so may run, but for those that there were before:
// these have the program's name.
std::set<std::string> ProcessorsOf(const std::string& prefix, const std::set<std::string>& before) {
  std::set<std::string> lists;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (before.contains(task.path().filename())) continue;
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    if (!name.starts_with(prefix)) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      constexpr std::string_view kKey = "Cpus_allowed_list:\t";
      if (line.starts_with(kKey)) lists.insert(line.substr(kKey.size()));
    }
  }
  return lists;
}

// The last that this process may use.
std::string OneProcessor() {
  const auto cpus = os::ParseCpuList(os::AllowedCpus());
  REQUIRE((cpus && !cpus->empty()));
  return std::to_string(cpus->back());
}

// A read of that file by the lane, and what then runs where.
int64_t Read(Lane& lane, int fd, std::vector<std::byte>& into) {
  std::promise<int64_t> ended;
  lane.loop().Post([&] {
    IoRequest request;
    request.fd = fd;
    request.at = into.data();
    request.bytes = into.size();
    request.ended = [&ended](int64_t result) { ended.set_value(result); };
    lane.Submit(std::move(request));
  });
  return ended.get_future().get();
}

}  // namespace

TEST_CASE("a lane's threads are kept on its processors, the kernel's own for its ring too") {
  const bool ring = GENERATE(true, false);
  CAPTURE(ring);
  const std::string cpu = OneProcessor();
  std::thread([] {}).join();  // with the first one a sanitizer may bring its own
  const std::set<std::string> before = Threads();
  auto lane = Lane::Make(Self(), ::getgid(), ring, std::make_shared<HeldMemory>(), cpu);
  REQUIRE_OK(lane);
  if (ring && !(*lane)->has_ring()) ONECOPY_SKIP("this process may have no ring");
  CHECK((*lane)->kept_on() == cpu);
  const TempFolder folder;
  std::ofstream(folder / "f") << std::string(kBytes, 'x');
  const os::UniqueFd file(::open((folder / "f").c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<std::byte> into(kBytes);
  CHECK(Read(**lane, file.get(), into) == static_cast<int64_t>(kBytes));
  CHECK(into.back() == std::byte{'x'});
  CHECK(ProcessorsOf("store", before) == std::set{cpu});
  if (!ring) return;
  // Buffered, and long enough to be a thread's of the kernel's.
  CHECK(ProcessorsOf("iou-wrk", before) == std::set{cpu});
}

TEST_CASE("a lane without processors runs where the process does, as does one with none of its") {
  const std::string cpus = GENERATE(as<std::string>(), "", "1023");
  CAPTURE(cpus);
  auto lane = Lane::Make(Self(), ::getgid(), true, std::make_shared<HeldMemory>(), cpus);
  REQUIRE_OK(lane);
  CHECK((*lane)->kept_on().empty());
  std::promise<std::string> waiting;
  REQUIRE((*lane)->Wait([&] { waiting.set_value(os::AllowedCpus()); }));
  CHECK(waiting.get_future().get() == os::AllowedCpus());
}

TEST_CASE("a user has one lane for opening files, and one for each NUMA node that they are near") {
  Lanes lanes(false, std::make_shared<HeldMemory>());
  const Lanes::Key opens{Self(), ::getgid(), {}};
  Lanes::Key near = opens;
  near.numa_node = 0;
  const std::string cpu = OneProcessor();
  auto opening = lanes.For(opens, {});
  auto moving = lanes.For(near, cpu);
  REQUIRE_OK(opening);
  REQUIRE_OK(moving);
  CHECK((*opening)->kept_on().empty());
  CHECK((*moving)->kept_on() == cpu);
  CHECK(*lanes.For(near, cpu) == *moving);
  near.numa_node = 1;
  CHECK(*lanes.For(near, cpu) != *moving);
  opening = moving = Status(Code::kUnknown, "X", "let go");
  lanes.Close();
  CHECK(lanes.For(opens, {}).status().code() == Code::kUnavailable);
}
