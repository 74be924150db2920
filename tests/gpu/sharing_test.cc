// Memory that another process exports, on real GPUs.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/conformance/memory/bytes.h"
#include "tests/gpu/exporter.h"
#include "tests/gpu/real_gpu.h"

namespace onecopy::testing::sharing_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

RegionRef ImportOrFail(Memory& memory, const Exported& exported) {
  REQUIRE_OK(exported.status);
  auto region = memory.Import(exported.request);
  REQUIRE_OK(region);
  return RegionRef(std::move(*region));
}

bool ContextIsOpen(int ordinal) {
  unsigned flags = 0;
  int active = 0;
  const auto gpus = cuda::ListGpus(**TheDriver());
  REQUIRE_OK(gpus);
  (*TheDriver())
      ->DevicePrimaryCtxGetState(gpus->at(static_cast<size_t>(ordinal)).device, &flags, &active);
  return active != 0;
}

// Holds a GPU's primary context, to ask what is free there.
class HeldContext {
 public:
  explicit HeldContext(int ordinal) {
    const auto gpus = cuda::ListGpus(api_);
    REQUIRE_OK(gpus);
    device_ = gpus->at(static_cast<size_t>(ordinal)).device;
    REQUIRE(api_.DevicePrimaryCtxRetain(&context_, device_) == CUDA_SUCCESS);
  }
  ~HeldContext() { api_.DevicePrimaryCtxRelease(device_); }
  HeldContext(const HeldContext&) = delete;
  HeldContext& operator=(const HeldContext&) = delete;

  CUcontext get() const { return context_; }
  uint64_t FreeBytes() const {
    size_t free = 0;
    size_t total = 0;
    const shim::ScopedCudaContext scope(api_, context_);
    REQUIRE(api_.MemGetInfo(&free, &total) == CUDA_SUCCESS);
    return free;
  }

 private:
  const shim::CudaApi& api_ = **TheDriver();
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

TEST_CASE("a real context opens with the first region and closes with the last") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  const std::string device = memory->Describe().front().device;
  CHECK_FALSE(ContextIsOpen(0));
  {
    auto region = memory->Allocate(device, kMiB);
    REQUIRE_OK(region);
    CHECK(ContextIsOpen(0));
    const RegionRef mine(std::move(*region));
    CHECK(ReadAll(*memory, mine) == Bytes(kMiB));
  }
  CHECK_FALSE(ContextIsOpen(0));
  REQUIRE_OK(memory->CloseDevice(device));
}

TEST_CASE("GPUs are described as nvidia-smi shows them") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  for (const MemoryCapability& gpu : memory->Describe()) {
    std::printf("cuda:%d %s %s at %s, %.1f GB, peers %zu", gpu.ordinal, gpu.name.c_str(),
                gpu.device.c_str(), gpu.address.c_str(), static_cast<double>(gpu.total_bytes) / 1e9,
                gpu.direct_peers.size());
    for (const auto& [key, value] : gpu.attributes) {
      std::printf(", %s %s", key.c_str(), value.c_str());
    }
    std::printf("\n");
    CHECK(gpu.viability.viable);
    CHECK(gpu.device.size() == 40);
    CHECK(*memory->FindDevice("cuda:" + std::to_string(gpu.ordinal)) == gpu.device);
    CHECK(*memory->FindDevice(gpu.address) == gpu.device);
  }
}

TEST_CASE("small allocations that the driver packs into one block are told apart") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  Exporter exporter;
  std::vector<Bytes> contents;
  std::vector<Exported> exported;
  std::vector<RegionRef> regions;
  for (unsigned i = 0; i < 6; ++i) {
    contents.push_back(Pattern(700 + 100 * i, 40 + i));
    Exporter::Piece piece;
    piece.allocation_bytes = 2000;
    piece.offset = i;
    exported.push_back(exporter.Allocate(piece, contents.back()));
    std::printf("small allocation %u: offset %llu of %llu bytes\n", i,
                static_cast<unsigned long long>(exported.back().request.offset),
                static_cast<unsigned long long>(exported.back().request.allocation_bytes));
    regions.push_back(ImportOrFail(*memory, exported.back()));
  }
  for (unsigned i = 0; i < 6; ++i) {
    INFO("allocation " << i);
    CHECK(ReadAll(*memory, regions[i]) == contents[i]);
    WriteAll(*memory, regions[i], Pattern(contents[i].size(), 60 + i));
  }
  for (unsigned i = 0; i < 6; ++i) {
    INFO("allocation " << i);
    CHECK(exporter.Read(exported[i].id, contents[i].size()) == Pattern(contents[i].size(), 60 + i));
  }
}

TEST_CASE("a kernel of the client and the daemon's copies see each other's bytes") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  Exporter exporter;
  for (const MemoryKind kind : {MemoryKind::kMalloc, MemoryKind::kVmm, MemoryKind::kVmmInside}) {
    INFO("kind " << static_cast<int>(kind));
    Exporter::Piece piece;
    piece.kind = kind;
    piece.allocation_bytes = 10 * kMiB;
    piece.offset = 333;
    const Bytes content = Pattern(5 * kMiB + 1, 5);
    const Exported exported = exporter.Allocate(piece, content);
    const RegionRef region = ImportOrFail(*memory, exported);
    CHECK(exported.request.offset == 333);
    CHECK(exported.request.allocation_bytes == 10 * kMiB);
    CHECK(ReadAll(*memory, region) == content);
    exporter.Flip(exported.id);
    Bytes flipped = content;
    for (unsigned char& byte : flipped) byte = static_cast<unsigned char>(~byte);
    CHECK(ReadAll(*memory, region) == flipped);
    WriteAll(*memory, region, Pattern(content.size(), 6));
    exporter.Flip(exported.id);
    Bytes expected = Pattern(content.size(), 6);
    for (unsigned char& byte : expected) byte = static_cast<unsigned char>(~byte);
    CHECK(exporter.Read(exported.id, content.size()) == expected);
  }
}

TEST_CASE("a thread of the client that has not used CUDA can export") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  Exporter exporter;
  for (const MemoryKind kind : {MemoryKind::kMalloc, MemoryKind::kVmm}) {
    INFO("kind " << static_cast<int>(kind));
    Exporter::Piece piece;
    piece.kind = kind;
    piece.allocation_bytes = 4 * kMiB;
    piece.on_new_thread = true;
    const Bytes content = Pattern(kMiB, 8);
    const RegionRef region = ImportOrFail(*memory, exporter.Allocate(piece, content));
    CHECK(ReadAll(*memory, region) == content);
  }
}

TEST_CASE("memory that CUDA cannot share is refused with its kind") {
  ONECOPY_NEEDS_GPUS(1);
  Exporter exporter;
  const std::vector<std::pair<MemoryKind, std::string>> kinds = {
      {MemoryKind::kHeap, "host memory"},
      {MemoryKind::kHostAlloc, "cudaHostAlloc"},
      {MemoryKind::kMallocManaged, "cudaMallocManaged"},
      {MemoryKind::kMallocAsync, "cudaMallocAsync"},
      {MemoryKind::kPool, "pool"},
      {MemoryKind::kVmmNoHandle, "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"},
  };
  for (const auto& [kind, word] : kinds) {
    Exporter::Piece piece;
    piece.kind = kind;
    piece.allocation_bytes = kMiB;
    piece.offset = 16;
    const Status status = exporter.Allocate(piece, Pattern(1000, 9)).status;
    INFO("kind " << static_cast<int>(kind) << ": " << status.ToString());
    CHECK(status.code() == Code::kFailedPrecondition);
    CHECK(status.reason() == reasons::kNotShareable);
    CHECK(status.message().find(word) != std::string::npos);
    CHECK_FALSE(status.remedy().empty());
  }
}

TEST_CASE("a range inside the second of two allocations begins there") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  Exporter exporter;
  Exporter::Piece piece;
  piece.kind = MemoryKind::kVmmTwo;
  piece.allocation_bytes = 2 * kMiB;
  piece.offset = 2 * kMiB + 5;
  const Exported second = exporter.Allocate(piece, Pattern(20, 10));
  CHECK(second.request.offset == 5);
  CHECK(second.request.allocation_bytes == 2 * kMiB);
  CHECK(ReadAll(*memory, ImportOrFail(*memory, second)) == Pattern(20, 10));
}

TEST_CASE("memory of a client that was killed stays until its region goes") {
  ONECOPY_NEEDS_GPUS(1);
  const HeldContext held(0);
  const auto memory = RealMemory();
  for (const MemoryKind kind : {MemoryKind::kMalloc, MemoryKind::kVmm}) {
    INFO("kind " << static_cast<int>(kind));
    constexpr uint64_t kLarge = 1024 * kMiB;
    std::optional<Exporter> exporter;
    exporter.emplace();
    Exporter::Piece piece;
    piece.kind = kind;
    piece.allocation_bytes = kLarge;
    piece.offset = kLarge - 12345;
    const Bytes content = Pattern(12345, 14);
    RegionRef region;
    {
      const Exported exported = exporter->Allocate(piece, content);
      region = ImportOrFail(*memory, exported);
    }  // the passed descriptor is closed
    exporter->Kill();
    CHECK(ReadAll(*memory, region) == content);
    WriteAll(*memory, region, Pattern(content.size(), 15));
    CHECK(ReadAll(*memory, region) == Pattern(content.size(), 15));
    const uint64_t before = held.FreeBytes();
    region.reset();
    const uint64_t after = held.FreeBytes();
    std::printf("free before the region went: %.2f GiB, after: %.2f GiB\n",
                static_cast<double>(before) / double{1 << 30},
                static_cast<double>(after) / double{1 << 30});
    CHECK(after >= before + kLarge / 2);
  }
}

TEST_CASE("two pieces of one allocation are imported and go in either order") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  Exporter exporter;
  for (const MemoryKind kind : {MemoryKind::kMalloc, MemoryKind::kVmm}) {
    INFO("kind " << static_cast<int>(kind));
    Exporter::Piece piece;
    piece.kind = kind;
    piece.allocation_bytes = 8 * kMiB;
    const Bytes content = Pattern(8 * kMiB, 17);
    Exported exported = exporter.Allocate(piece, content);
    for (const bool first_goes_first : {true, false}) {
      exported.request.offset = 1;
      exported.request.bytes = 1000;
      RegionRef first = ImportOrFail(*memory, exported);
      exported.request.offset = 7 * kMiB + 3;
      RegionRef second = ImportOrFail(*memory, exported);
      (first_goes_first ? first : second).reset();
      const RegionRef& left = first_goes_first ? second : first;
      const auto at = static_cast<ptrdiff_t>(first_goes_first ? 7 * kMiB + 3 : 1);
      CHECK(ReadAll(*memory, left) == Bytes(content.begin() + at, content.begin() + at + 1000));
    }
  }
}

TEST_CASE("memory of cuMemCreate that is said to lie on another GPU is refused") {
  ONECOPY_NEEDS_GPUS(2);
  const auto memory = RealMemory();
  Exporter exporter;
  Exporter::Piece piece;
  piece.kind = MemoryKind::kVmm;
  piece.allocation_bytes = 4 * kMiB;
  const Bytes content = Pattern(1000, 19);
  Exported exported = exporter.Allocate(piece, content);
  const std::string right = exported.request.device;
  exported.request.device = memory->Describe().at(1).device;
  const Status status = memory->Import(exported.request).status();
  INFO(status.ToString());
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.reason() == reasons::kBadHandle);
  exported.request.device = right;
  CHECK(ReadAll(*memory, ImportOrFail(*memory, exported)) == content);
}

TEST_CASE("memory of cudaMalloc has its bytes, whichever GPU it is said to lie on") {
  ONECOPY_NEEDS_GPUS(2);
  const auto memory = RealMemory();
  Exporter exporter;
  Exporter::Piece piece;
  piece.allocation_bytes = 4 * kMiB;
  const Bytes content = Pattern(1000, 20);
  Exported exported = exporter.Allocate(piece, content);
  for (const MemoryCapability& gpu : memory->Describe()) {
    exported.request.device = gpu.device;
    CHECK(ReadAll(*memory, ImportOrFail(*memory, exported)) == content);
  }
}

TEST_CASE("copies between GPUs go straight, into a client's memory too") {
  ONECOPY_NEEDS_GPUS(2);
  const auto memory = RealMemory();
  constexpr uint64_t kBytes = 16 * kMiB + 5;
  Exporter exporter;
  for (const MemoryKind kind : {MemoryKind::kMalloc, MemoryKind::kVmm}) {
    for (const int theirs : {0, 1}) {
      INFO("kind " << static_cast<int>(kind) << " on cuda:" << theirs);
      Exporter::Piece piece;
      piece.kind = kind;
      piece.device = theirs;
      piece.allocation_bytes = 20 * kMiB;
      piece.offset = 77;
      const Bytes content = Pattern(kBytes, 23);
      const Exported exported = exporter.Allocate(piece, content);
      const RegionRef client = ImportOrFail(*memory, exported);
      auto region =
          memory->Allocate(memory->Describe().at(static_cast<size_t>(1 - theirs)).device, kBytes);
      REQUIRE_OK(region);
      const RegionRef mine(std::move(*region));
      {
        auto route = memory->Prepare(client, mine);
        REQUIRE_OK(route);
        REQUIRE_OK(CopyNow(**route, 0, 0, kBytes).status);
        CHECK(ReadAll(*memory, mine) == content);
      }
      WriteAll(*memory, mine, Pattern(kBytes, 24));
      auto route = memory->Prepare(mine, client);
      REQUIRE_OK(route);
      REQUIRE_OK(CopyNow(**route, 0, 0, kBytes).status);
      CHECK(exporter.Read(exported.id, kBytes) == Pattern(kBytes, 24));
    }
  }
}

// Not a rule of ours: what the driver does, printed, since its documentation leaves it open.
TEST_CASE("what the driver says of an opened handle") {
  ONECOPY_NEEDS_GPUS(1);
  const shim::CudaApi& api = **TheDriver();
  Exporter exporter;
  int gpus = 0;
  REQUIRE(api.DeviceGetCount(&gpus) == CUDA_SUCCESS);
  for (const uint64_t allocation : {uint64_t{2000}, 4 * kMiB}) {
    Exporter::Piece piece;
    piece.allocation_bytes = allocation;
    const Exported exported = exporter.Allocate(piece, Pattern(1000, 27));
    REQUIRE_OK(exported.status);
    CUipcMemHandle handle{};
    std::copy(exported.request.handle.begin(), exported.request.handle.end(), handle.reserved);
    for (int opener = 0; opener < gpus && opener < 2; ++opener) {
      const HeldContext held(opener);
      const shim::ScopedCudaContext scope(api, held.get());
      CUdeviceptr address = 0;
      const CUresult opened =
          api.IpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
      std::printf("memory of cuda:0, %llu bytes, opened on cuda:%d: %s\n",
                  static_cast<unsigned long long>(allocation), opener,
                  shim::CudaErrorText(api, opened).c_str());
      if (opener == 0) CHECK(opened == CUDA_SUCCESS);
      if (opened != CUDA_SUCCESS) continue;
      CUdeviceptr start = 0;
      CUdeviceptr again = 0;
      size_t bytes = 0;
      int ordinal = -1;
      unsigned legacy = 9;
      const CUresult range = api.MemGetAddressRange(&start, &bytes, address);
      const CUresult asked =
          api.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
      const CUresult capable = api.PointerGetAttribute(
          &legacy, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address);
      const CUresult twice =
          api.IpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
      std::printf(
          "  range: %s, address - start %llu, %llu bytes; ordinal: %s, %d; legacy: %s, %u; "
          "opened again: %s, %s\n",
          shim::CudaErrorText(api, range).c_str(), static_cast<unsigned long long>(address - start),
          static_cast<unsigned long long>(bytes), shim::CudaErrorText(api, asked).c_str(), ordinal,
          shim::CudaErrorText(api, capable).c_str(), legacy,
          shim::CudaErrorText(api, twice).c_str(), again == address ? "same" : "other");
      if (twice == CUDA_SUCCESS) api.IpcCloseMemHandle(again);
      CHECK(api.IpcCloseMemHandle(address) == CUDA_SUCCESS);
    }
  }
}

}  // namespace
}  // namespace onecopy::testing::sharing_test
