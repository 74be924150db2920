#include "transport/shim/cuda_export.h"

#include <fcntl.h>
#include <unistd.h>

#include <limits>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "transport/memory/cuda/cuda_memory.h"

namespace onecopy {
namespace {

using testing::FakeCudaFunction;
using testing::FakeCudaPath;
using testing::ScopedEnvironment;

constexpr size_t kBytes = size_t{2} << 20;

struct Driver {
  std::shared_ptr<const shim::CudaApi> api = *shim::LoadCuda(FakeCudaPath());
  FakeCudaAllocate* allocate = FakeCudaFunction<FakeCudaAllocate>("fakeCudaAllocate");

  Driver() {
    CUcontext context = nullptr;
    for (int device = 0; device < 2; ++device) api->DevicePrimaryCtxRetain(&context, device);
  }
  ~Driver() {
    for (int device = 0; device < 2; ++device) api->DevicePrimaryCtxRelease(device);
  }
};

void CheckNotShareable(const Driver& driver, uintptr_t pointer, uint64_t bytes,
                       const std::string& word) {
  const Status status = shim::ExportCuda(*driver.api, pointer, bytes).status();
  INFO(status.ToString());
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.reason() == reasons::kNotShareable);
  CHECK(status.message().find(word) != std::string::npos);
  CHECK_FALSE(status.remedy().empty());
}

TEST_CASE("cudaMalloc memory is exported as a handle and an offset") {
  const Driver driver;
  const CUdeviceptr start = driver.allocate(FAKE_CUDA_LEGACY, 1, kBytes, 0);
  const auto exported = shim::ExportCuda(*driver.api, start + 4099, 1001);
  REQUIRE_OK(exported);
  CHECK(exported->form == "cuda-ipc");
  CHECK(exported->device_uuid == "GPU-a15a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a");
  CHECK(exported->handle.size() == 64);
  CHECK(exported->offset == 4099);
  CHECK(exported->allocation_bytes == kBytes);
  CHECK_FALSE(exported->fd);
}

TEST_CASE("an allocation is found from any of its bytes, and no two are the same") {
  const Driver driver;
  const auto kind = GENERATE(FAKE_CUDA_LEGACY, FAKE_CUDA_VMM);
  const CUdeviceptr start = driver.allocate(kind, 1, kBytes, 0);
  const auto first = shim::FindCudaAllocation(*driver.api, start);
  REQUIRE_OK(first);
  CHECK(first->start == start);
  CHECK(first->bytes == kBytes);
  CHECK(first->id != 0);
  const auto last = shim::FindCudaAllocation(*driver.api, start + kBytes - 1);
  REQUIRE_OK(last);
  CHECK(last->start == start);
  CHECK(last->id == first->id);
  const auto other = shim::FindCudaAllocation(*driver.api, driver.allocate(kind, 1, kBytes, 0));
  REQUIRE_OK(other);
  CHECK(other->id != first->id);
}

TEST_CASE("what cannot be shared has no allocation to share") {
  const Driver driver;
  for (const auto kind : {FAKE_CUDA_POOL, FAKE_CUDA_MANAGED, FAKE_CUDA_PINNED_HOST}) {
    const auto found = shim::FindCudaAllocation(*driver.api, driver.allocate(kind, 0, kBytes, 0));
    CHECK(found.status().reason() == reasons::kNotShareable);
  }
  const int on_the_stack = 0;
  CHECK(shim::FindCudaAllocation(*driver.api, reinterpret_cast<uintptr_t>(&on_the_stack))
            .status()
            .reason() == reasons::kNotShareable);
}

TEST_CASE("cuMemCreate memory is exported as a descriptor that can be imported") {
  const Driver driver;
  const CUdeviceptr start = driver.allocate(FAKE_CUDA_VMM, 0, kBytes, 0);
  *reinterpret_cast<char*>(start + 77) = 'x';
  const auto exported = shim::ExportCuda(*driver.api, start + 77, 1);
  REQUIRE_OK(exported);
  CHECK(exported->form == "cuda-vmm");
  CHECK(exported->offset == 77);
  REQUIRE(exported->fd);

  cuda::CudaMemory memory({"test", {}}, driver.api);
  ImportRequest request;
  request.form = exported->form;
  request.device = exported->device_uuid;
  request.bytes = 1;
  request.offset = exported->offset;
  request.allocation_bytes = exported->allocation_bytes;
  request.fd = exported->fd.get();
  const auto region = memory.Import(request);
  REQUIRE_OK(region);
  CHECK(*reinterpret_cast<char*>((*region)->address()) == 'x');
}

TEST_CASE("a thread without a context, and one in another GPU's, can export") {
  const Driver driver;
  const CUdeviceptr start = driver.allocate(FAKE_CUDA_LEGACY, 0, kBytes, 0);
  REQUIRE_OK(shim::ExportCuda(*driver.api, start, kBytes));
  CUcontext other = nullptr;
  driver.api->DevicePrimaryCtxRetain(&other, 1);
  driver.api->CtxPushCurrent(other);
  REQUIRE_OK(shim::ExportCuda(*driver.api, start, kBytes));
  CUcontext current = nullptr;
  CHECK(driver.api->CtxPopCurrent(&current) == CUDA_SUCCESS);
  CHECK(current == other);
  driver.api->DevicePrimaryCtxRelease(1);
}

TEST_CASE("memory that cannot be shared is refused with its kind and what to use instead") {
  const Driver driver;
  const auto allocate = [&](FakeCudaKind kind) { return driver.allocate(kind, 0, kBytes, 0); };
  int local = 0;
  CheckNotShareable(driver, reinterpret_cast<uintptr_t>(&local), sizeof local, "host memory");
  CheckNotShareable(driver, allocate(FAKE_CUDA_PINNED_HOST), 1, "cudaHostAlloc");
  CheckNotShareable(driver, allocate(FAKE_CUDA_MANAGED), 1, "cudaMallocManaged");
  CheckNotShareable(driver, allocate(FAKE_CUDA_POOL), 1, "cudaMallocAsync");
  CheckNotShareable(driver, allocate(FAKE_CUDA_VMM_NO_HANDLE), 1,
                    "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
}

TEST_CASE("a range over several allocations of cudaMalloc is refused") {
  const Driver driver;
  const CUdeviceptr start = driver.allocate(FAKE_CUDA_LEGACY, 0, kBytes, 1);
  CheckNotShareable(driver, start + 10, kBytes, "several allocations");
  CHECK(shim::FindCudaAllocation(*driver.api, start + 10, kBytes).status().reason() ==
        reasons::kNotShareable);
  REQUIRE_OK(shim::ExportCuda(*driver.api, start + 10, kBytes - 10));
  const auto second = shim::ExportCuda(*driver.api, start + kBytes, kBytes);
  REQUIRE_OK(second);
  CHECK(second->offset == 0);
}

TEST_CASE("allocations of cuMemCreate one behind the other are one memory") {
  const Driver driver;
  const CUdeviceptr start = driver.allocate(FAKE_CUDA_VMM, 1, kBytes, 3);
  const auto exported = shim::ExportCuda(*driver.api, start + kBytes + 10, 2 * kBytes);
  REQUIRE_OK(exported);
  CHECK(exported->form == "cuda-vmm");
  CHECK(exported->offset == 10);
  CHECK(exported->allocation_bytes == kBytes);
  REQUIRE(exported->more.size() == 2);
  CHECK(exported->more[0].bytes == kBytes);

  auto* const bytes = reinterpret_cast<char*>(start);
  bytes[kBytes + 10] = 'a';
  bytes[2 * kBytes] = 'b';
  bytes[3 * kBytes + 9] = 'c';
  cuda::CudaMemory memory({"test", {}}, driver.api);
  ImportRequest request;
  request.form = exported->form;
  request.device = exported->device_uuid;
  request.bytes = 2 * kBytes;
  request.offset = exported->offset;
  request.allocation_bytes = exported->allocation_bytes;
  request.fd = exported->fd.get();
  for (const auto& one : exported->more) request.more.push_back({one.fd.get(), one.bytes});
  {
    const auto region = memory.Import(request);
    REQUIRE_OK(region);
    const auto* const seen = reinterpret_cast<const char*>((*region)->address());
    CHECK(seen[0] == 'a');
    CHECK(seen[kBytes - 10] == 'b');
    CHECK(seen[2 * kBytes - 1] == 'c');
    // Another process is given all of them.
    const auto shared = (*region)->Share();
    REQUIRE_OK(shared);
    const os::UniqueFd first(shared->fd);
    CHECK(shared->offset == 10);
    REQUIRE(shared->more.size() == 2);
    for (const auto& one : shared->more) {
      const os::UniqueFd fd(one.fd);
      CHECK(fd);
      CHECK(one.bytes == kBytes);
    }
  }
  const auto refused = [&](auto spoil) {
    ImportRequest wrong = request;
    spoil(wrong);
    return memory.Import(wrong).status().reason();
  };
  CHECK(refused([](auto& wrong) { wrong.more.pop_back(); }) == reasons::kRangeOutOfBuffer);
  CHECK(refused([](auto& wrong) { wrong.more[1].fd = -1; }) == reasons::kBadHandle);
  CHECK(refused([](auto& wrong) { wrong.more[0].bytes -= 1; }) == reasons::kBadHandle);
  CHECK(refused([](auto& wrong) { wrong.more[0].bytes = 2 * kBytes; }) == reasons::kBadHandle);
  CHECK(refused([](auto& wrong) { wrong.more[0].bytes = ~uint64_t{0} - 4; }) == reasons::kBadSize);
  CHECK(refused([](auto& wrong) { wrong.more.resize(kMaxAllocations, wrong.more[0]); }) ==
        reasons::kBadArgument);
  REQUIRE_OK(memory.Import(request));
}

TEST_CASE("what lies behind the last allocation is not taken for one") {
  const Driver driver;
  const CUdeviceptr start = driver.allocate(FAKE_CUDA_VMM, 0, kBytes, 1);
  CHECK(shim::ExportCuda(*driver.api, start + 10, 2 * kBytes).status().reason() ==
        reasons::kRangeOutOfBuffer);
  REQUIRE_OK(shim::ExportCuda(*driver.api, start + 10, 2 * kBytes - 10));
}

TEST_CASE("several allocations have one number, of these alone") {
  const Driver driver;
  const CUdeviceptr start = driver.allocate(FAKE_CUDA_VMM, 0, kBytes, 2);
  const auto find = [&](uint64_t offset, uint64_t bytes) {
    return shim::FindCudaAllocation(*driver.api, start + offset, bytes);
  };
  const auto two = find(5, kBytes);
  REQUIRE_OK(two);
  CHECK(two->start == start);
  CHECK(two->bytes == 2 * kBytes);
  CHECK(*two == *find(0, 2 * kBytes));
  CHECK(two->id != find(0, 1)->id);
  CHECK(two->id != find(0, 3 * kBytes)->id);
  CHECK(two->id != find(kBytes, 2 * kBytes)->id);
  CHECK(find(kBytes, 2 * kBytes)->start == start + kBytes);
}

TEST_CASE("a range that ends beyond its allocation is out of range") {
  const Driver driver;
  const CUdeviceptr start = driver.allocate(FAKE_CUDA_LEGACY, 0, kBytes, 0);
  for (const uint64_t bytes :
       {uint64_t{kBytes}, uint64_t{1} << 50, std::numeric_limits<uint64_t>::max()}) {
    INFO(bytes);
    const Status status = shim::ExportCuda(*driver.api, start + 1, bytes).status();
    CHECK(status.code() == Code::kOutOfRange);
    CHECK(status.reason() == reasons::kRangeOutOfBuffer);
  }
  CHECK(shim::ExportCuda(*driver.api, start, 0).status().reason() == reasons::kBadSize);
}

TEST_CASE("memory of a MIG instance cannot be shared") {
  const ScopedEnvironment mig("FAKE_CUDA_MIG", "1");
  const Driver driver;
  CheckNotShareable(driver, driver.allocate(FAKE_CUDA_LEGACY, 0, kBytes, 0), 1, "MIG");
}

FakeCudaDmaBuf Asked(const os::UniqueFd& fd) {
  FakeCudaDmaBuf asked{};
  REQUIRE(::pread(fd.get(), &asked, sizeof asked, 0) == static_cast<ssize_t>(sizeof asked));
  return asked;
}

TEST_CASE("a dma-buf covers whole pages, and says where the range begins in them") {
  const Driver driver;
  for (const FakeCudaKind kind : {FAKE_CUDA_LEGACY, FAKE_CUDA_VMM, FAKE_CUDA_POOL}) {
    INFO(kind);
    const CUdeviceptr start = driver.allocate(kind, 1, kBytes, 0);
    const auto exported = shim::ExportCudaDmaBuf(*driver.api, start + 4096 + 77, 4096);
    REQUIRE_OK(exported);
    CHECK(exported->offset == 77);
    const FakeCudaDmaBuf asked = Asked(exported->fd);
    CHECK(asked.address == start + 4096);
    CHECK(asked.bytes == 8192);
    CHECK(asked.flags == 1);
    CHECK((::fcntl(exported->fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  }
}

TEST_CASE("a driver that does not map dma-bufs over PCIe on request is asked without") {
  const Driver driver;
  const ScopedEnvironment refuses("FAKE_CUDA_NO_PCIE_FLAG", "1");
  const CUdeviceptr start = driver.allocate(FAKE_CUDA_LEGACY, 0, kBytes, 0);
  const auto exported = shim::ExportCudaDmaBuf(*driver.api, start, kBytes);
  REQUIRE_OK(exported);
  CHECK(Asked(exported->fd).flags == 0);
}

TEST_CASE("cudaMalloc memory goes with its dma-buf, or with the reason why it has none") {
  Driver driver;
  const CUdeviceptr start = driver.allocate(FAKE_CUDA_LEGACY, 0, kBytes, 0);
  {
    const auto exported = shim::ExportCuda(*driver.api, start + 4099, 1001);
    REQUIRE_OK(exported);
    REQUIRE(exported->dmabuf.fd);
    CHECK(exported->dmabuf.offset == 3);
    CHECK(Asked(exported->dmabuf.fd).address == start + 4096);
    CHECK(exported->dmabuf_refusal.empty());
  }
  {
    const ScopedEnvironment none("FAKE_CUDA_NO_DMABUF", "1");
    const auto exported = shim::ExportCuda(*driver.api, start, 1);
    REQUIRE_OK(exported);
    CHECK_FALSE(exported->dmabuf.fd);
    CHECK(exported->dmabuf_refusal.find("reports no dma-buf") != std::string::npos);
  }
  auto without = *driver.api;
  without.MemGetHandleForAddressRange = [](void*, CUdeviceptr, size_t, CUmemRangeHandleType,
                                           unsigned long long) -> CUresult {
    FAIL("a dma-buf is made that nobody wants");
    return CUDA_ERROR_UNKNOWN;
  };
  const auto left = shim::ExportCuda(without, start, 1, shim::DmaBufs::kLeave);
  REQUIRE_OK(left);
  CHECK(left->form == "cuda-ipc");
  CHECK_FALSE(left->dmabuf.fd);
  CHECK(left->dmabuf_refusal.find("no network device") != std::string::npos);
  without.MemGetHandleForAddressRange = nullptr;
  const auto exported = shim::ExportCuda(without, start, 1);
  REQUIRE_OK(exported);
  CHECK_FALSE(exported->dmabuf.fd);
  CHECK(exported->dmabuf_refusal.find("cuMemGetHandleForAddressRange") != std::string::npos);
  const Status status = shim::ExportCudaDmaBuf(without, start, 1).status();
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.reason() == reasons::kGpuNotPinnable);
  CHECK_FALSE(status.remedy().empty());
}

TEST_CASE("what is no memory of a GPU reports no dma-buf, nor has a range beyond an allocation") {
  const Driver driver;
  int local = 0;
  const auto reason = [&](uintptr_t pointer, uint64_t bytes) {
    return shim::ExportCudaDmaBuf(*driver.api, pointer, bytes).status().reason();
  };
  CHECK(reason(reinterpret_cast<uintptr_t>(&local), 4) == reasons::kNotShareable);
  const CUdeviceptr start = driver.allocate(FAKE_CUDA_LEGACY, 0, kBytes, 0);
  CHECK(reason(start, 0) == reasons::kBadSize);
  CHECK(reason(start + 1, kBytes) == reasons::kRangeOutOfBuffer);
  CHECK(reason(driver.allocate(FAKE_CUDA_MANAGED, 0, kBytes, 0), 1) == reasons::kNotShareable);
}

}  // namespace
}  // namespace onecopy
