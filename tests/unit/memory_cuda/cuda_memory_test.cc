// What the conformance suite cannot ask for: errors of the driver, contexts, pins, peers.
#include "transport/memory/cuda/cuda_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/conformance/memory/bytes.h"
#include "tests/support/catch.h"
#include "tests/support/event.h"
#include "tests/support/fake_cuda.h"
#include "transport/core/reasons.h"
#include "transport/os/dma_buf.h"
#include "transport/os/mapping.h"

namespace onecopy::cuda {
namespace {

using testing::Bytes;
using testing::CopyNow;
using testing::Event;
using testing::FakeCudaFunction;
using testing::FakeCudaPath;
using testing::HostRegion;
using testing::Pattern;
using testing::ReadAll;
using testing::ScopedEnvironment;
using testing::WriteAll;

// The fake driver's functions, to be called by what wraps them; and what the wrappers saw.
const shim::CudaApi* fake = nullptr;
std::atomic<CUresult> event_result{CUDA_SUCCESS};
std::atomic<int> pinned{0};
std::atomic<int> unpinned{0};
std::atomic<int> opened{0};
std::atomic<uint64_t> copied_bytes{0};
CUmemAllocationProp created{};

class Rig {
 public:
  using DmaBufBytes = std::function<Result<uint64_t>(int fd)>;

  explicit Rig(Gpu::Options gpu = {}, DmaBufBytes dmabuf_bytes = os::DmaBufBytes)
      : real_(**shim::LoadCuda(FakeCudaPath())),
        options_{"test", gpu, std::move(dmabuf_bytes)},
        api(std::make_shared<shim::CudaApi>(real_)) {
    fake = &real_;
    event_result = CUDA_SUCCESS;
    pinned = unpinned = opened = 0;
    copied_bytes = 0;
  }
  ~Rig() {
    memory_.reset();
    CHECK(FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")() == 0);
  }

  // Made on first use, after the test has put its wrappers into `api`.
  CudaMemory& memory() {
    if (memory_ == nullptr) {
      memory_ = std::make_unique<CudaMemory>(options_, std::shared_ptr<const shim::CudaApi>(api));
    }
    return *memory_;
  }
  std::string device(size_t index) { return memory().Describe().at(index).device; }
  Viability viability(size_t index) { return memory().Describe().at(index).viability; }
  RegionRef Allocate(size_t index, uint64_t bytes) {
    auto region = memory().Allocate(device(index), bytes);
    REQUIRE_OK(region);
    return RegionRef(std::move(*region));
  }
  // In nvidia-smi's order, which is not the fake driver's.
  bool ContextIsOpen(size_t index) {
    unsigned flags = 0;
    int active = 0;
    const auto gpus = ListGpus(real_);
    REQUIRE_OK(gpus);
    real_.DevicePrimaryCtxGetState(gpus->at(index).device, &flags, &active);
    return active != 0;
  }

 private:
  const shim::CudaApi real_;
  const CudaMemory::Options options_;

 public:
  const std::shared_ptr<shim::CudaApi> api;

 private:
  std::unique_ptr<CudaMemory> memory_;
};

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
  Rig rig;
  const RegionRef region = rig.Allocate(0, 8 << 20);
  rig.api->EventRecord = [](CUevent, CUstream) { return CUDA_ERROR_INVALID_HANDLE; };
  auto route = rig.memory().Prepare(HostRegion(Pattern(8 << 20, 4)), region);
  REQUIRE_OK(route);
  const Status status = CopyNow(**route, 0, 0, 8 << 20).status;
  CHECK(status.code() == Code::kInternal);
  CHECK(status.message().find("CUDA_ERROR_INVALID_HANDLE") != std::string::npos);
  CHECK(Bytes(reinterpret_cast<unsigned char*>(region->address()),
              reinterpret_cast<unsigned char*>(region->address()) + (8 << 20)) ==
        Pattern(8 << 20, 4));
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

TEST_CASE("memory of another process on another GPU is reached, twice too") {
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
}

TEST_CASE("host memory is pinned once, for all GPUs, until it goes") {
  Rig rig;
  rig.api->MemHostRegister = [](void* address, size_t bytes, unsigned flags) {
    ++pinned;
    return fake->MemHostRegister(address, bytes, flags);
  };
  rig.api->MemHostUnregister = [](void* address) {
    ++unpinned;
    return fake->MemHostUnregister(address);
  };
  const RegionRef first = rig.Allocate(0, 4096);
  const RegionRef second = rig.Allocate(1, 4096);
  RegionRef host = HostRegion(Pattern(4096, 8));
  for (int round = 0; round < 3; ++round) {
    for (const RegionRef& gpu : {first, second}) {
      auto route = rig.memory().Prepare(host, gpu);
      REQUIRE_OK(route);
      REQUIRE_OK(CopyNow(**route, 0, 0, 4096).status);
    }
  }
  CHECK(pinned == 1);
  CHECK(unpinned == 0);
  host.reset();
  CHECK(unpinned == 1);
}

TEST_CASE("a pin goes with the context that it was made in, and comes back in another") {
  Rig rig;
  rig.api->MemHostRegister = [](void* address, size_t bytes, unsigned flags) {
    ++pinned;
    return fake->MemHostRegister(address, bytes, flags);
  };
  rig.api->MemHostUnregister = [](void* address) {
    ++unpinned;
    return fake->MemHostUnregister(address);
  };
  const RegionRef host = HostRegion(Pattern(4096, 9));
  RegionRef first = rig.Allocate(0, 4096);
  REQUIRE_OK(rig.memory().Prepare(host, first));
  const RegionRef second = rig.Allocate(1, 4096);
  {
    // While a route of the other GPU uses the pin, the context that has it stays open.
    auto route = rig.memory().Prepare(host, second);
    REQUIRE_OK(route);
    first.reset();
    CHECK(rig.ContextIsOpen(0));
    REQUIRE_OK(CopyNow(**route, 0, 0, 4096).status);
    CHECK(rig.memory().CloseDevice(rig.device(0)).reason() == reasons::kDeviceInUse);
  }
  CHECK_FALSE(rig.ContextIsOpen(0));
  CHECK(pinned == 1);
  CHECK(unpinned == 1);
  auto route = rig.memory().Prepare(host, second);
  REQUIRE_OK(route);
  REQUIRE_OK(CopyNow(**route, 0, 0, 4096).status);
  CHECK(pinned == 2);
  CHECK(ReadAll(rig.memory(), second) == Pattern(4096, 9));
}

TEST_CASE("pins of many regions survive contexts that open and close under them") {
  Rig rig;
  std::vector<RegionRef> hosts;
  for (unsigned i = 0; i < 4; ++i) hosts.push_back(HostRegion(Pattern(10'000, 100 + i)));
  std::atomic<int> failures{0};
  const std::vector<std::string> devices = {rig.device(0), rig.device(1)};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned round = 0; round < 50; ++round) {
        auto region = rig.memory().Allocate(devices[(t + round) % 2], 10'000);
        if (!region.ok()) {
          ++failures;
          continue;
        }
        auto route = rig.memory().Prepare(hosts[(t * round) % 4], RegionRef(std::move(*region)));
        if (!route.ok() || !CopyNow(**route, 0, 0, 10'000).status.ok()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  CHECK_FALSE(rig.ContextIsOpen(0));
  CHECK_FALSE(rig.ContextIsOpen(1));
}

TEST_CASE("host memory that cannot be pinned is refused, never copied twice") {
  Rig rig;
  const RegionRef region = rig.Allocate(0, 4096);
  for (const CUresult error : {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY}) {
    static std::atomic<CUresult> given;
    given = error;
    rig.api->MemHostRegister = [](void*, size_t, unsigned) { return given.load(); };
    const Status status = rig.memory().Prepare(HostRegion(Bytes(4096)), region).status();
    CHECK(status.code() == Code::kFailedPrecondition);
    CHECK(status.reason() == reasons::kHostNotPinnable);
    CHECK(status.message().find("CUDA_ERROR_") != std::string::npos);
    CHECK_FALSE(status.remedy().empty());
  }
}

FakeCudaDmaBuf Asked(int fd) {
  FakeCudaDmaBuf asked{};
  REQUIRE(::pread(fd, &asked, sizeof asked, 0) == static_cast<ssize_t>(sizeof asked));
  return asked;
}

// A client's memory, and what it passed for it.
ImportRequest Foreign(Rig& rig, FakeCudaKind kind, os::UniqueFd& keep) {
  CUipcMemHandle handle{};
  int fd = -1;
  FakeCudaFunction<FakeCudaForeign>("fakeCudaForeign")(kind, 1, 2 << 20, &handle, &fd);
  keep = os::UniqueFd(fd);
  ImportRequest request;
  request.form = kind == FAKE_CUDA_LEGACY ? "cuda-ipc" : "cuda-vmm";
  request.device = rig.device(0);
  request.bytes = 5000;
  request.offset = 4099;
  request.allocation_bytes = 2 << 20;
  request.fd = fd;
  if (kind == FAKE_CUDA_LEGACY) request.handle.assign(handle.reserved, sizeof handle.reserved);
  return request;
}

TEST_CASE("network devices reach the daemon's memory and a client's of cuMemCreate by dma-buf") {
  Rig rig;
  os::UniqueFd keep;
  const RegionRef own = rig.Allocate(0, 5000);
  auto imported = rig.memory().Import(Foreign(rig, FAKE_CUDA_VMM, keep));
  REQUIRE_OK(imported);
  const RegionRef client(std::move(*imported));
  for (const RegionRef& region : {own, client}) {
    const auto exported = region->ExportDmaBuf();
    REQUIRE_OK(exported);
    const os::UniqueFd fd(exported->fd);
    CHECK(exported->offset == (region == own ? 0 : 3));
    CHECK(Asked(exported->fd).address ==
          reinterpret_cast<CUdeviceptr>(region->address()) - exported->offset);
    CHECK(Asked(exported->fd).bytes == 8192);
  }
  const ScopedEnvironment none("FAKE_CUDA_NO_DMABUF", "1");
  const Status status = own->ExportDmaBuf().status();
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.reason() == reasons::kGpuNotPinnable);
}

TEST_CASE("memory of a legacy handle has the dma-buf that its client passed") {
  Rig rig({}, [](int fd) -> Result<uint64_t> { return static_cast<uint64_t>(::lseek(fd, 0, 2)); });
  os::UniqueFd keep;
  ImportRequest request = Foreign(rig, FAKE_CUDA_LEGACY, keep);
  auto passed = os::SealedMemfd("dmabuf", 8192);
  REQUIRE_OK(passed);
  request.dmabuf_fd = passed->get();
  request.dmabuf_offset = 3;
  auto imported = rig.memory().Import(request);
  REQUIRE_OK(imported);
  const auto inode = [](int fd) {
    struct stat facts {};
    ::fstat(fd, &facts);
    return facts.st_ino;
  };
  const ino_t wanted = inode(passed->get());
  passed->Reset();  // the region keeps its own
  for (int i = 0; i < 2; ++i) {
    const auto exported = (*imported)->ExportDmaBuf();
    REQUIRE_OK(exported);
    const os::UniqueFd fd(exported->fd);
    CHECK(exported->offset == 3);
    CHECK(inode(exported->fd) == wanted);
  }

  auto small = os::SealedMemfd("dmabuf", 8192);
  REQUIRE_OK(small);
  request.dmabuf_fd = small->get();
  for (const uint64_t offset : {uint64_t{8192 - 4999}, uint64_t{8193}, ~uint64_t{0}}) {
    request.dmabuf_offset = offset;
    const Status status = rig.memory().Import(request).status();
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.reason() == reasons::kBadHandle);
  }
}

TEST_CASE("a client's dma-buf that is none is refused, and a client without one is not") {
  Rig rig;
  os::UniqueFd keep;
  ImportRequest request = Foreign(rig, FAKE_CUDA_LEGACY, keep);
  const auto other = os::SealedMemfd("no dma-buf", 1 << 20);
  REQUIRE_OK(other);
  request.dmabuf_fd = other->get();
  CHECK(rig.memory().Import(request).status().reason() == reasons::kBadHandle);
  CHECK_FALSE(rig.ContextIsOpen(0));
  request.dmabuf_fd = -1;
  request.dmabuf_refusal = "the driver has none";
  const auto imported = rig.memory().Import(request);
  REQUIRE_OK(imported);
  const Status status = (*imported)->ExportDmaBuf().status();
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.reason() == reasons::kGpuNotPinnable);
  CHECK(status.message().find("the driver has none") != std::string::npos);
}

TEST_CASE("another daemon can import what a region shares, and sees the same bytes") {
  Rig rig;
  os::UniqueFd keep;
  RegionRef own = rig.Allocate(0, 5000);
  auto imported = rig.memory().Import(Foreign(rig, FAKE_CUDA_VMM, keep));
  REQUIRE_OK(imported);
  RegionRef client(std::move(*imported));
  for (const RegionRef& region : {own, client}) {
    WriteAll(rig.memory(), region, Pattern(5000, 6));
    const auto shared = region->Share();
    REQUIRE_OK(shared);
    const os::UniqueFd fd(shared->fd);
    CHECK(shared->form == "cuda-vmm");
    const auto there = rig.memory().Import(*shared);
    REQUIRE_OK(there);
    CHECK((*there)->address() != region->address());
    CHECK(std::memcmp((*there)->address(), Pattern(5000, 6).data(), 5000) == 0);
    CHECK((*there)->place() == region->place());
  }
}

TEST_CASE("memory of a legacy handle is shared by that very handle") {
  Rig rig;
  os::UniqueFd keep;
  ImportRequest request = Foreign(rig, FAKE_CUDA_LEGACY, keep);
  request.owner_pid = 4711;
  const auto imported = rig.memory().Import(request);
  REQUIRE_OK(imported);
  const auto shared = (*imported)->Share();
  REQUIRE_OK(shared);
  CHECK(shared->form == "cuda-ipc");
  CHECK(shared->handle == request.handle);
  CHECK(shared->offset == 4099);
  CHECK(shared->bytes == 5000);
  CHECK(shared->owner_pid == 4711);
  CHECK(shared->fd == -1);
}

std::atomic<int> flushed{0};
std::atomic<int> scope_asked{0};

TEST_CASE("remote writes are flushed for all GPUs, unless all see them in order anyway") {
  struct Example {
    std::string ordering;
    bool peers;
    bool needed;
  };
  for (const Example& example :
       {Example{"0", true, true}, Example{"0", false, true}, Example{"100", true, true},
        Example{"100", false, false}, Example{"200", true, false}, Example{"200", false, false}}) {
    INFO("ordering " << example.ordering << ", peers " << example.peers);
    const ScopedEnvironment ordering("FAKE_CUDA_ORDERING", example.ordering);
    std::unique_ptr<ScopedEnvironment> alone;
    if (!example.peers) alone = std::make_unique<ScopedEnvironment>("FAKE_CUDA_NO_PEER", "1");
    Rig rig;
    flushed = scope_asked = 0;
    rig.api->FlushGPUDirectRDMAWrites = [](CUflushGPUDirectRDMAWritesTarget target,
                                           CUflushGPUDirectRDMAWritesScope scope) {
      ++flushed;
      scope_asked = scope;
      return fake->FlushGPUDirectRDMAWrites(target, scope);
    };
    const RegionRef region = rig.Allocate(0, 4096);
    CHECK(region->needs_flush() == example.needed);
    REQUIRE_OK(region->FlushRemoteWrites());
    CHECK(flushed == (example.needed ? 1 : 0));
    if (example.needed) CHECK(scope_asked == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
  }
}

TEST_CASE(
    "a GPU that neither orders nor flushes remote writes says so, and an error is the driver's") {
  const ScopedEnvironment unordered("FAKE_CUDA_ORDERING", "0");
  {
    const ScopedEnvironment none("FAKE_CUDA_NO_FLUSH", "1");
    Rig rig;
    const Status status = rig.Allocate(0, 4096)->FlushRemoteWrites();
    CHECK(status.code() == Code::kFailedPrecondition);
    CHECK_FALSE(status.remedy().empty());
  }
  Rig rig;
  rig.api->FlushGPUDirectRDMAWrites = [](CUflushGPUDirectRDMAWritesTarget,
                                         CUflushGPUDirectRDMAWritesScope) {
    return CUDA_ERROR_NOT_SUPPORTED;
  };
  const Status status = rig.Allocate(0, 4096)->FlushRemoteWrites();
  CHECK(status.code() == Code::kInternal);
  CHECK(status.message().find("CUDA_ERROR_NOT_SUPPORTED") != std::string::npos);
}

}  // namespace
}  // namespace onecopy::cuda
