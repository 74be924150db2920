// What the conformance suite cannot ask for: contexts, and errors of the driver.
#include <cstring>

#include "onecopy/reasons.h"
#include "tests/support/event.h"
#include "tests/unit/memory_cuda/rig.h"
namespace onecopy::cuda {
namespace {

using testing::Event;

CUmemAllocationProp created{};

TEST_CASE("contexts open with the first region and close with the last region or route") {
  Rig rig;
  CHECK(rig.memory().Describe().size() == 2);
  CHECK_FALSE(rig.ContextIsOpen(0));
  RegionRef region = rig.Allocate(0, 4096);
  CHECK(rig.ContextIsOpen(0));
  CHECK_FALSE(rig.ContextIsOpen(1));
  auto route = rig.memory().Prepare(region, HostRegion(Bytes(4096)));
  REQUIRE_OK(route);
  region.reset();
  CHECK(rig.ContextIsOpen(0));
  route->reset();
  CHECK_FALSE(rig.ContextIsOpen(0));
}

TEST_CASE("a region that goes on the GPU's own thread closes its context") {
  Rig rig;
  RegionRef region = rig.Allocate(0, 4096);
  auto route = rig.memory().Prepare(region, region);
  REQUIRE_OK(route);
  Event completed;
  CopyRoute* const copying = route->get();
  Executor& executor = copying->executor();
  copying->Copy(0, 0, 1,
                [&, kept = std::make_shared<std::unique_ptr<CopyRoute>>(std::move(*route)),
                 last = std::move(region)](const Status&, const StepList&) mutable {
                  kept->reset();
                  last.reset();
                  completed.Set();
                });
  completed.Wait();
  Event turned;  // closing is a task of the thread; this one comes after it
  executor.Post([&] { turned.Set(); });
  turned.Wait();
  CHECK_FALSE(rig.ContextIsOpen(0));
}

TEST_CASE("the daemon's GPU memory is exportable and readable by NICs") {
  Rig rig;
  rig.api->MemCreate = [](CUmemGenericAllocationHandle* handle, size_t bytes,
                          const CUmemAllocationProp* properties, unsigned long long flags) {
    created = *properties;
    return fake->MemCreate(handle, bytes, properties, flags);
  };
  const RegionRef region = rig.Allocate(1, 1);
  CHECK(created.type == CU_MEM_ALLOCATION_TYPE_PINNED);
  CHECK(created.location.id == 0);  // cuda:1 is the fake driver's 0
  CHECK(created.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CHECK(created.allocFlags.gpuDirectRDMACapable == 1);
}

TEST_CASE("every payload byte is copied by one call of the driver") {
  Rig rig;
  rig.api->MemcpyHtoDAsync = [](CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    copied_bytes += bytes;
    return fake->MemcpyHtoDAsync(to, from, bytes, stream);
  };
  rig.api->MemcpyDtoHAsync = [](void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    copied_bytes += bytes;
    return fake->MemcpyDtoHAsync(to, from, bytes, stream);
  };
  rig.api->MemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    copied_bytes += bytes;
    return fake->MemcpyDtoDAsync(to, from, bytes, stream);
  };
  constexpr uint64_t kBytes = 1'000'003;
  const RegionRef host = HostRegion(Pattern(kBytes, 1));
  const std::vector<RegionRef> places = {host, rig.Allocate(0, kBytes), rig.Allocate(1, kBytes),
                                         rig.Allocate(1, kBytes)};
  for (const RegionRef& from : places) {
    for (const RegionRef& to : places) {
      if (from == to) continue;
      auto route = rig.memory().Prepare(from, to);
      REQUIRE_OK(route);
      REQUIRE_OK(CopyNow(**route, 0, 0, 0).status);  // what woke the driver has ended before it
      copied_bytes = 0;
      const auto outcome = CopyNow(**route, 0, 0, kBytes);
      REQUIRE_OK(outcome.status);
      CHECK(copied_bytes == kBytes * outcome.steps->size());
    }
  }
}

TEST_CASE("a broken context loses its GPU for good, and only this one") {
  Rig rig;
  rig.api->EventQuery = [](CUevent event) {
    // As on hardware, the error comes when nothing is copied any more.
    const CUresult result = fake->EventQuery(event);
    return result == CUDA_SUCCESS ? event_result.load() : result;
  };
  RegionRef region = rig.Allocate(0, 1 << 20);
  const RegionRef host = HostRegion(Pattern(1 << 20, 2));
  auto route = rig.memory().Prepare(host, region);
  REQUIRE_OK(route);
  event_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  std::atomic<int> lost{0};
  std::atomic<int> left{10};
  Event all;
  for (int i = 0; i < 10; ++i) {
    (*route)->Copy(0, 0, 1 << 20, [&](const Status& status, const StepList&) {
      if (status.reason() == reasons::kGpuLost) ++lost;
      if (--left == 0) all.Set();
    });
  }
  all.Wait();
  CHECK(lost == 10);
  event_result = CUDA_SUCCESS;

  CHECK(CopyNow(**route, 0, 0, 1).status.reason() == reasons::kGpuLost);
  const Status status = rig.memory().Allocate(rig.device(0), 1).status();
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.reason() == reasons::kGpuLost);
  CHECK(status.message().find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos);
  CHECK(status.remedy().find("restart onecopyd") != std::string::npos);
  CHECK(rig.memory().Prepare(host, region).status().reason() == reasons::kGpuLost);
  CHECK(rig.viability(0).reason == reasons::kGpuLost);
  CHECK(rig.viability(0).detail == status.message());
  CHECK(rig.viability(1).viable);
  const RegionRef other = rig.Allocate(1, 4096);
  CHECK(rig.memory().Prepare(other, region).status().reason() == reasons::kGpuLost);
  CHECK(ReadAll(rig.memory(), other) == Bytes(4096));
  route->reset();
  region.reset();
  CHECK_FALSE(rig.ContextIsOpen(0));
}

TEST_CASE("a copy that cannot be followed has let go of its memory before it fails") {
  constexpr uint64_t kBytes = 1 << 20;  // in one turn: see CopyStream
  Rig rig;
  const RegionRef region = rig.Allocate(0, kBytes);
  rig.api->EventRecord = [](CUevent, CUstream) { return CUDA_ERROR_INVALID_HANDLE; };
  auto route = rig.memory().Prepare(HostRegion(Pattern(kBytes, 4)), region);
  REQUIRE_OK(route);
  const Status status = CopyNow(**route, 0, 0, kBytes).status;
  CHECK(status.code() == Code::kInternal);
  CHECK(status.message().find("CUDA_ERROR_INVALID_HANDLE") != std::string::npos);
  CHECK(Bytes(reinterpret_cast<unsigned char*>(region->address()),
              reinterpret_cast<unsigned char*>(region->address()) + (kBytes)) ==
        Pattern(kBytes, 4));
}

TEST_CASE("an unknown error while a handle is imported does not lose the GPU") {
  Rig rig;
  rig.api->MemImportFromShareableHandle = [](CUmemGenericAllocationHandle*, void*,
                                             CUmemAllocationHandleType) {
    return CUDA_ERROR_UNKNOWN;
  };
  ImportRequest request;
  request.form = "cuda-vmm";
  request.device = rig.device(0);
  request.bytes = 1;
  request.allocation_bytes = 2 << 20;
  request.fd = 0;
  const Status status = rig.memory().Import(request).status();
  CHECK(status.reason() == reasons::kBadHandle);
  CHECK(status.message().find("CUDA_ERROR_UNKNOWN (999)") != std::string::npos);
  CHECK(rig.viability(0).viable);
  rig.Allocate(0, 1);
}

TEST_CASE("a context that cannot be opened fails with the driver's own error") {
  Rig rig;
  rig.api->DevicePrimaryCtxRetain = [](CUcontext*, CUdevice) {
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
  };
  const Status status = rig.memory().Allocate(rig.device(0), 1).status();
  CHECK(status.reason() == reasons::kDriverFailed);
  CHECK(status.message().find("46") != std::string::npos);
  CHECK(rig.viability(0).viable);
  REQUIRE_OK(rig.memory().CloseDevice(rig.device(0)));
}

}  // namespace
}  // namespace onecopy::cuda
