#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/memory/suite.h"

namespace onecopy::testing {
namespace {

TEST_CASE("memory describes its devices and finds each of them by its UUID") {
  ONECOPY_SUBJECT(subject);
  const std::vector<MemoryCapability> capabilities = subject.memory().Describe();
  REQUIRE(capabilities.size() == subject.devices().size());
  for (const MemoryCapability& capability : capabilities) {
    CHECK(capability.kind == subject.memory().kind());
    CHECK(capability.viability.viable);
    CHECK((capability.total_bytes > 0 || !subject.allocates()));
    CHECK_FALSE(capability.name.empty());
    const auto found = subject.memory().FindDevice(capability.device);
    REQUIRE_OK(found);
    CHECK(*found == capability.device);
  }
}

TEST_CASE("a device that is not there is not found") {
  ONECOPY_SUBJECT(subject);
  const std::string absent = "GPU-00000000-0000-0000-0000-000000000000";
  CHECK(subject.memory().FindDevice(absent).status().code() == Code::kNotFound);
  CHECK(subject.memory().FindDevice("floppy").status().code() == Code::kNotFound);
  CHECK(subject.memory().Allocate(absent, 4096).status().code() == Code::kNotFound);
}

TEST_CASE("allocated memory has the size that was asked for and is zero") {
  ONECOPY_SUBJECT(subject);
  for (const std::string& device : subject.devices()) {
    for (const uint64_t bytes :
         {uint64_t{1}, uint64_t{4097}, (uint64_t{3} << 20) + 1, uint64_t{64} << 20}) {
      INFO(device << ", " << bytes << " bytes");
      const RegionRef region = AllocateOrFail(subject, device, bytes);
      CHECK(region->bytes() == bytes);
      CHECK(region->place() == Place{subject.memory().kind(), device});
      const Bytes content = ReadAll(subject.memory(), region);
      CHECK(std::all_of(content.begin(), content.end(), [](unsigned char c) { return c == 0; }));
    }
  }
}

TEST_CASE("memory to stage through is like any other, and is nobody else's to have") {
  ONECOPY_SUBJECT(subject);
  const std::string device = subject.devices().front();
  if (!subject.allocates()) {
    const Status refused = subject.memory().AllocateForStaging(device, 1, -1).status();
    CHECK(refused.code() == Code::kFailedPrecondition);
    return;
  }
  for (const uint64_t bytes : {uint64_t{1}, (uint64_t{3} << 20) + 1}) {
    INFO(bytes << " bytes");
    auto made = subject.memory().AllocateForStaging(device, bytes, -1);
    REQUIRE_OK(made);
    const RegionRef region = std::move(*made);
    CHECK(region->bytes() == bytes);
    CHECK(region->place() == Place{subject.memory().kind(), device});
    CHECK(ReadAll(subject.memory(), region) == Bytes(bytes, 0));
    WriteAll(subject.memory(), region, Pattern(bytes, 5));
    CHECK(ReadAll(subject.memory(), region) == Pattern(bytes, 5));
    // A GPU's may be, to go on from there: that one's staging is a buffer like others.
    if (device.empty()) CHECK(region->Share().status().reason() == reasons::kNotShareable);
  }
  for (const uint64_t bytes : {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 60}) {
    const Status status = subject.memory().AllocateForStaging(device, bytes, -1).status();
    CHECK(status.code() == Code::kResourceExhausted);
    CHECK(status.reason() == reasons::kNoMemory);
  }
  const std::string absent = "GPU-00000000-0000-0000-0000-000000000000";
  CHECK(subject.memory().AllocateForStaging(absent, 4096, -1).status().code() == Code::kNotFound);
}

TEST_CASE("memory that was used before is zero when it is allocated again") {
  ONECOPY_SUBJECT(subject);
  const std::string device = subject.devices().front();
  constexpr uint64_t kBytes = uint64_t{8} << 20;
  for (int round = 0; round < 4; ++round) {
    const RegionRef region = AllocateOrFail(subject, device, kBytes);
    const Bytes content = ReadAll(subject.memory(), region);
    CHECK(std::all_of(content.begin(), content.end(), [](unsigned char c) { return c == 0; }));
    WriteAll(subject.memory(), region, Pattern(kBytes, 7));
  }
}

TEST_CASE("a large allocation works to its last byte") {
  ONECOPY_SUBJECT(subject);
  const std::string device = subject.devices().front();
  const uint64_t bytes = subject.large_bytes();
  const RegionRef large = AllocateOrFail(subject, device, bytes);
  const RegionRef small = HostRegion(Pattern(5, 3));
  auto in = subject.memory().Prepare(small, large);
  auto out = subject.memory().Prepare(large, small);
  REQUIRE_OK(in);
  REQUIRE_OK(out);
  REQUIRE_OK(CopyNow(**in, 0, bytes - 5, 5).status);
  const Bytes expected = ReadAll(subject.memory(), small);
  REQUIRE_OK(CopyNow(**out, 0, 0, 5).status);
  CHECK(ReadAll(subject.memory(), small) == Bytes(5, 0));
  REQUIRE_OK(CopyNow(**out, bytes - 5, 0, 5).status);
  CHECK(ReadAll(subject.memory(), small) == expected);
}

TEST_CASE("more memory than there is fails with NO_MEMORY, and nothing is lost") {
  ONECOPY_SUBJECT(subject);
  const std::string device = subject.devices().front();
  if (!subject.allocates()) {
    const Status refused = subject.memory().Allocate(device, 1).status();
    CHECK(refused.code() == Code::kFailedPrecondition);
    CHECK_FALSE(refused.remedy().empty());
    return;
  }
  for (const uint64_t bytes :
       {uint64_t{1} << 50, uint64_t{1} << 62, std::numeric_limits<uint64_t>::max()}) {
    INFO(bytes << " bytes");
    const Status status = subject.memory().Allocate(device, bytes).status();
    CHECK(status.code() == Code::kResourceExhausted);
    CHECK(status.reason() == reasons::kNoMemory);
    CHECK_FALSE(status.remedy().empty());
  }
  AllocateOrFail(subject, device, 4096);
}

TEST_CASE("several threads may allocate and let go at once") {
  ONECOPY_SUBJECT(subject);
  const std::string device = subject.devices().front();
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        if (!subject.Make(device, 100'000).ok()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("what is attached to a region goes before its bytes, the last first") {
  ONECOPY_SUBJECT(subject);
  std::vector<int> order;
  RegionRef region = AllocateOrFail(subject, subject.devices().front(), 4096);
  region->OnRelease([&] { order.push_back(1); });
  region->OnRelease([&] { order.push_back(2); });
  auto route = subject.memory().Prepare(region, HostRegion(Bytes(4096)));
  REQUIRE_OK(route);
  region.reset();
  CHECK(order.empty());  // the route still holds it
  route->reset();
  CHECK(order == std::vector<int>{2, 1});
}

TEST_CASE("a device closes only when nothing of it is used") {
  ONECOPY_SUBJECT(subject);
  const std::string device = subject.devices().front();
  if (device.empty()) {
    CHECK(subject.memory().CloseDevice(device).code() == Code::kInvalidArgument);
    return;
  }
  REQUIRE_OK(subject.memory().CloseDevice(device));
  RegionRef region = AllocateOrFail(subject, device, 4096);
  const Status busy = subject.memory().CloseDevice(device);
  CHECK(busy.code() == Code::kFailedPrecondition);
  CHECK(busy.reason() == reasons::kDeviceInUse);
  auto route = subject.memory().Prepare(region, HostRegion(Bytes(4096)));
  REQUIRE_OK(route);
  region.reset();
  CHECK(subject.memory().CloseDevice(device).reason() == reasons::kDeviceInUse);
  route->reset();
  REQUIRE_OK(subject.memory().CloseDevice(device));
  // And it opens again.
  const RegionRef again = AllocateOrFail(subject, device, 4096);
  CHECK(ReadAll(subject.memory(), again) == Bytes(4096));
}

}  // namespace
}  // namespace onecopy::testing
