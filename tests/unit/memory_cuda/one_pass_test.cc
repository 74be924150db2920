// Copies between GPUs that are one pass, and those that the driver takes through host memory.
#include "onecopy/reasons.h"
#include "tests/unit/memory_cuda/rig.h"

namespace onecopy::cuda {
namespace {

constexpr uint64_t kBytes = 1 << 20;

// Memory of another process, registered by its legacy handle.
RegionRef Legacy(Rig& rig, size_t index, int driver_ordinal) {
  ImportRequest request;
  request.form = "cuda-ipc";
  request.device = rig.device(index);
  request.bytes = kBytes;
  CUipcMemHandle handle{};
  FakeCudaFunction<FakeCudaForeign>("fakeCudaForeign")(FAKE_CUDA_LEGACY, driver_ordinal, kBytes,
                                                       &handle, nullptr);
  request.handle.assign(handle.reserved, sizeof handle.reserved);
  auto imported = rig.memory().Import(request);
  REQUIRE_OK(imported);
  return RegionRef(std::move(*imported));
}

NvlinkCounters Counters(std::function<uint64_t()> sent) {
  return {[sent = std::move(sent)](const std::string&) { return std::optional(sent()); },
          [](const std::string&, const std::string&) { return std::optional(true); }};
}

TEST_CASE("a way that the driver takes through host memory is told, and refused from then on") {
  const ScopedEnvironment stages("FAKE_CUDA_STAGES", "imported");
  Rig rig;
  const RegionRef mine = rig.Allocate(0, kBytes);
  const RegionRef theirs = Legacy(rig, 1, 0);
  auto route = rig.memory().Prepare(mine, theirs);
  REQUIRE_OK(route);
  const Status seen = (*route)->Prove(0, 0, kBytes);
  CHECK(seen.code() == Code::kFailedPrecondition);
  CHECK(seen.reason() == reasons::kNotOnePass);
  CHECK(seen.message().find("times as long as between the daemon's own memories") !=
        std::string::npos);
  CHECK_FALSE(seen.remedy().empty());
  CHECK(rig.memory().Prepare(mine, theirs).status().message() == seen.message());
  CHECK(rig.memory().PrepareSmall(mine, theirs).status().reason() == reasons::kNotOnePass);
  // Of no other way.
  const RegionRef other = rig.Allocate(1, kBytes);
  auto own = rig.memory().Prepare(mine, other);
  REQUIRE_OK(own);
  REQUIRE_OK((*own)->Prove(0, 0, kBytes));
}

TEST_CASE("a way that is one pass has its figures, is looked at once, and touches no other bytes") {
  static std::atomic<int> copies{0};
  Rig rig;
  rig.api->MemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    if (bytes > 16) ++copies;  // than what wakes the driver
    return fake->MemcpyDtoDAsync(to, from, bytes, stream);
  };
  const RegionRef from = rig.Allocate(0, kBytes);
  const RegionRef to = Legacy(rig, 1, 0);
  WriteAll(rig.memory(), from, Pattern(kBytes, 1));
  WriteAll(rig.memory(), to, Pattern(kBytes, 2));
  auto route = rig.memory().Prepare(from, to);
  REQUIRE_OK(route);
  CHECK((*route)->proof().empty());
  copies = 0;
  REQUIRE_OK((*route)->Prove(100, 300, 4096));
  CHECK(copies > 0);
  CHECK((*route)->proof().find("4 KiB in ") == 0);
  Bytes expected = Pattern(kBytes, 2);
  const Bytes source = Pattern(kBytes, 1);
  std::copy(source.begin() + 100, source.begin() + 4196, expected.begin() + 300);
  CHECK(ReadAll(rig.memory(), to) == expected);

  auto again = rig.memory().Prepare(from, to);
  REQUIRE_OK(again);
  copies = 0;
  REQUIRE_OK((*again)->Prove(0, 0, kBytes));
  CHECK(copies == 0);
  CHECK((*again)->proof() == (*route)->proof());
  REQUIRE_OK(rig.memory().PrepareSmall(from, to));
}

TEST_CASE("small transfers wait until a way has been looked at") {
  Rig rig;
  const RegionRef from = rig.Allocate(0, kBytes);
  const RegionRef to = rig.Allocate(1, kBytes);
  CHECK(rig.memory().PrepareSmall(from, to).status().reason() == reasons::kNotApplicable);
  Prove(rig.memory(), from, to);
  REQUIRE_OK(rig.memory().PrepareSmall(from, to));
}

TEST_CASE("bytes that do not cross NVLink are no one pass, however quick") {
  Rig rig({}, os::DmaBufBytes, Counters([] { return uint64_t{7}; }));
  auto route = rig.memory().Prepare(rig.Allocate(0, kBytes), rig.Allocate(1, kBytes));
  REQUIRE_OK(route);
  const Status seen = (*route)->Prove(0, 0, kBytes);
  CHECK(seen.reason() == reasons::kNotOnePass);
  CHECK(seen.message().find("did not cross NVLink") != std::string::npos);
  CHECK(seen.message().find("NVLink counted 0 B of") != std::string::npos);
}

TEST_CASE("what NVLink counted is in the proof") {
  Rig rig({}, os::DmaBufBytes, Counters([at = uint64_t{0}]() mutable { return at += 64 << 20; }));
  auto route = rig.memory().Prepare(rig.Allocate(0, kBytes), rig.Allocate(1, kBytes));
  REQUIRE_OK(route);
  REQUIRE_OK((*route)->Prove(0, 0, kBytes));
  CHECK((*route)->proof().find("NVLink counted 64 MiB of 5 MiB") != std::string::npos);
}

TEST_CASE("a driver that takes all of its ways through host memory is found out by the counters") {
  const ScopedEnvironment stages("FAKE_CUDA_STAGES", "all");
  Rig rig({}, os::DmaBufBytes, Counters([] { return uint64_t{0}; }));
  auto route = rig.memory().Prepare(rig.Allocate(0, kBytes), rig.Allocate(1, kBytes));
  REQUIRE_OK(route);
  CHECK((*route)->Prove(0, 0, kBytes).reason() == reasons::kNotOnePass);
}

TEST_CASE("without room to look there is no one pass, and the next transfer looks again") {
  static std::atomic<bool> full{true};
  full = true;
  Rig rig;
  rig.api->MemAlloc = [](CUdeviceptr* address, size_t bytes) {
    return full ? CUDA_ERROR_OUT_OF_MEMORY : fake->MemAlloc(address, bytes);
  };
  auto route = rig.memory().Prepare(rig.Allocate(0, kBytes), rig.Allocate(1, kBytes));
  REQUIRE_OK(route);
  CHECK((*route)->Prove(0, 0, kBytes).reason() == reasons::kNotOnePass);
  full = false;
  REQUIRE_OK((*route)->Prove(0, 0, kBytes));
}

}  // namespace
}  // namespace onecopy::cuda
