// Memory of other processes by legacy handles, and GPUs that reach each other, or do not.
#include "onecopy/reasons.h"
#include "tests/unit/memory_cuda/rig.h"
namespace onecopy::cuda {
namespace {

TEST_CASE("the same IPC handle is opened once and closed with its last region") {
  Rig rig;
  rig.api->IpcOpenMemHandle = [](CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
    ++opened;
    return fake->IpcOpenMemHandle(address, handle, flags);
  };
  CUipcMemHandle handle{};
  FakeCudaFunction<FakeCudaForeign>("fakeCudaForeign")(FAKE_CUDA_LEGACY, 1, 1 << 20, &handle,
                                                       nullptr);
  ImportRequest request;
  request.form = "cuda-ipc";
  request.device = rig.device(0);
  request.bytes = 4096;
  request.handle.assign(handle.reserved, sizeof handle.reserved);
  for (int round = 1; round <= 2; ++round) {
    auto first = rig.memory().Import(request);
    request.offset = 4096;
    auto second = rig.memory().Import(request);
    REQUIRE_OK(first);
    REQUIRE_OK(second);
    CHECK((*second)->address() == (*first)->address() + 4096);
    request.offset = 0;
    CHECK(opened == round);
  }
}

TEST_CASE("what legacy IPC cannot do is refused with its reason") {
  ImportRequest request;
  request.form = "cuda-ipc";
  request.bytes = 1;
  request.handle.assign(64, 'x');
  {
    Rig rig;
    request.device = rig.device(0);
    request.same_pid_namespace = false;
    const Status status = rig.memory().Import(request).status();
    CHECK(status.code() == Code::kFailedPrecondition);
    CHECK(status.reason() == reasons::kPidNamespace);
    CHECK_FALSE(status.remedy().empty());
    CHECK_FALSE(rig.ContextIsOpen(0));
  }
  const ScopedEnvironment mig("FAKE_CUDA_MIG", "1");
  Rig rig;
  request.device = rig.device(0);
  CHECK(request.device.starts_with("MIG-"));
  request.same_pid_namespace = true;
  CHECK(rig.memory().Import(request).status().reason() == reasons::kNotShareable);
}

TEST_CASE("GPUs without peer access are not copied between") {
  const ScopedEnvironment none("FAKE_CUDA_NO_PEER", "1");
  Rig rig;
  CHECK(rig.memory().Describe().front().direct_peers.empty());
  const Status status = rig.memory().Prepare(rig.Allocate(0, 4096), rig.Allocate(1, 4096)).status();
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.reason() == reasons::kNoPeerAccess);
  CHECK_FALSE(status.remedy().empty());
}

TEST_CASE("peer access that the driver promises and then refuses is NO_PEER_ACCESS") {
  Rig rig;
  const RegionRef from = rig.Allocate(0, 4096);
  const RegionRef to = rig.Allocate(1, 4096);
  rig.api->MemSetAccess = [](CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  };
  const Status status = rig.memory().Prepare(from, to).status();
  CHECK(status.reason() == reasons::kNoPeerAccess);
  CHECK(status.message().find("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED") != std::string::npos);
}

size_t StagedBytes() { return FakeCudaFunction<FakeCudaStagedBytes>("fakeCudaStagedBytes")(); }

TEST_CASE("memory of another process on another GPU is reached in one pass, twice too") {
  const size_t staged = StagedBytes();
  Rig rig;
  CUipcMemHandle handle{};
  auto* const view = static_cast<unsigned char*>(FakeCudaFunction<FakeCudaForeign>(
      "fakeCudaForeign")(FAKE_CUDA_LEGACY, 0, 1 << 20, &handle, nullptr));
  ImportRequest request;
  request.form = "cuda-ipc";
  request.device = rig.device(1);
  request.bytes = 100'000;
  request.offset = 5;
  request.handle.assign(handle.reserved, sizeof handle.reserved);
  auto imported = rig.memory().Import(request);
  REQUIRE_OK(imported);
  const RegionRef theirs(std::move(*imported));
  const RegionRef mine = rig.Allocate(0, 100'000);
  WriteAll(rig.memory(), mine, Pattern(100'000, 6));
  for (int round = 0; round < 2; ++round) {
    auto route = rig.memory().Prepare(mine, theirs);
    REQUIRE_OK(route);
    REQUIRE_OK(CopyNow(**route, 0, 0, 100'000).status);
  }
  CHECK(Bytes(view + 5, view + 100'005) == Pattern(100'000, 6));
  CHECK(StagedBytes() == staged);
}

}  // namespace
}  // namespace onecopy::cuda
