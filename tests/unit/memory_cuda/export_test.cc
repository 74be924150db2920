// How others reach a region: network devices, other daemons, readers after a remote write.
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "onecopy/reasons.h"
#include "tests/unit/memory_cuda/rig.h"
#include "transport/memory/cuda/region_access.h"
#include "transport/os/memory/mapping.h"
namespace onecopy::cuda {
namespace {

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
    CHECK(exported->lies == reinterpret_cast<CUdeviceptr>(region->address()));
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

TEST_CASE("another process can import what a region shares, and sees the same bytes") {
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
    // Of the daemon's nothing else is opened; of the client's all of its allocation is.
    CHECK(shared->owner_only.empty() == (region == own));
    const auto there = rig.memory().Import(*shared);
    REQUIRE_OK(there);
    CHECK((*there)->address() != region->address());
    CHECK(std::memcmp((*there)->address(), Pattern(5000, 6).data(), 5000) == 0);
    CHECK((*there)->place() == region->place());
  }
}

TEST_CASE("a client's memory in several allocations is shared with all of them, up to a number") {
  Rig rig;
  for (const size_t count : {size_t{3}, kMaxKeptAllocations + 1}) {
    std::vector<os::UniqueFd> kept(count);
    ImportRequest request = Foreign(rig, FAKE_CUDA_VMM, kept.front());
    for (size_t i = 1; i < count; ++i) {
      const ImportRequest more = Foreign(rig, FAKE_CUDA_VMM, kept[i]);
      request.more.push_back({more.fd, more.allocation_bytes});
    }
    request.offset = 0;
    request.bytes = count * request.allocation_bytes;
    const auto imported = rig.memory().Import(request);
    REQUIRE_OK(imported);
    kept.clear();
    auto shared = (*imported)->Share();
    if (count > kMaxKeptAllocations) {
      CHECK(shared.status().reason() == reasons::kNotShareable);
      continue;
    }
    REQUIRE_OK(shared);
    CHECK(shared->owner_only.empty());
    REQUIRE(shared->more.size() == count - 1);
    std::vector<os::UniqueFd> fds;
    fds.emplace_back(shared->fd);
    for (const ImportRequest::Allocation& one : shared->more) fds.emplace_back(one.fd);
    const auto there = rig.memory().Import(*shared);
    REQUIRE_OK(there);
    const uint64_t last = request.bytes - 1;
    (*imported)->address()[last] = std::byte{0x42};  // the fake's memory is the host's
    CHECK((*there)->address()[last] == std::byte{0x42});
  }
}

// The fake driver opens no handle of its own process, so that another daemon is not to be had here:
// tests/gpu has two.
TEST_CASE("a buffer of cuMemAlloc is shared by a legacy handle, and read by network devices") {
  Rig rig({}, os::DmaBufBytes, {}, Allocation::kLegacy);
  const RegionRef own = rig.Allocate(0, 5000);
  const auto shared = own->Share();
  REQUIRE_OK(shared);
  CHECK(shared->form == "cuda-ipc");
  CHECK(shared->device == rig.device(0));
  CHECK(shared->bytes == 5000);
  CHECK(shared->offset == 0);
  CHECK(shared->handle.size() == sizeof CUipcMemHandle().reserved);
  const auto dmabuf = own->ExportDmaBuf();
  REQUIRE_OK(dmabuf);
  const os::UniqueFd fd(dmabuf->fd);
  CHECK(dmabuf->offset == 0);
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
  CHECK_FALSE(shared->owner_only.empty());
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
