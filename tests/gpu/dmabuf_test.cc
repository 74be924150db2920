// GPU memory as network devices would reach it: dma-bufs, exported on real GPUs by clients and by
// the daemon's own code. What a network device makes of them is for machines that have one.
#include <unistd.h>

#include <cstdio>

#include "onecopy/reasons.h"
#include "tests/conformance/memory/bytes.h"
#include "tests/gpu/exporter.h"
#include "tests/gpu/real_gpu.h"
#include "transport/os/memory/dma_buf.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::testing::dmabuf_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// That the kernel calls it a dma-buf, and that it has room for the piece.
void CheckDmaBuf(const char* what, int fd, uint64_t offset, uint64_t bytes) {
  INFO(what);
  const auto size = os::DmaBufBytes(fd);
  REQUIRE_OK(size);
  std::printf("%s: a dma-buf of %llu bytes, the %llu bytes of the piece begin at %llu\n", what,
              static_cast<unsigned long long>(*size), static_cast<unsigned long long>(bytes),
              static_cast<unsigned long long>(offset));
  CHECK(offset <= *size);
  CHECK(bytes <= *size - offset);
}

struct Kind {
  MemoryKind kind;
  const char* name;
};

TEST_CASE("a client exports its memory of cudaMalloc, of a pool and of cuMemCreate as a dma-buf") {
  ONECOPY_NEEDS_GPUS(1);
  Exporter exporter;
  for (const Kind& kind : {Kind{MemoryKind::kMalloc, "client's cudaMalloc"},
                           Kind{MemoryKind::kMallocAsync, "client's cudaMallocAsync"},
                           Kind{MemoryKind::kPool, "client's cudaMallocFromPoolAsync"},
                           Kind{MemoryKind::kVmm, "client's cuMemCreate"},
                           Kind{MemoryKind::kVmmInside, "client's cuMemCreate, inside"}}) {
    for (const auto& [allocation, offset, bytes] :
         std::vector<std::tuple<uint64_t, uint64_t, uint64_t>>{
             {5'000'003, 4099, 4'000'001}, {2000, 5, 1000}, {4 * kMiB, 0, 4 * kMiB}}) {
      // Of a pool the driver exports what begins at a page, as a pool's first allocation does.
      const bool pool = kind.kind == MemoryKind::kMallocAsync || kind.kind == MemoryKind::kPool;
      if (pool && allocation != 5'000'003) continue;
      INFO(kind.name << ": " << bytes << " bytes at " << offset << " of " << allocation);
      Exporter::Piece piece;
      piece.kind = kind.kind;
      piece.allocation_bytes = allocation;
      piece.offset = offset;
      const Exported exported = exporter.Allocate(piece, Pattern(bytes, 1));
      const Exporter::DmaBuf dmabuf = exporter.ExportDmaBuf(exported.id);
      CheckDmaBuf(kind.name, dmabuf.fd.get(), dmabuf.offset, bytes);
    }
  }
}

TEST_CASE("the daemon exports its own memory and a client's of cuMemCreate") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  const std::string device = memory->Describe().front().device;
  auto own = memory->Allocate(device, 5'000'003);
  REQUIRE_OK(own);
  const auto exported = (*own)->ExportDmaBuf();
  REQUIRE_OK(exported);
  const os::UniqueFd fd(exported->fd);
  CheckDmaBuf("daemon's own", exported->fd, exported->offset, 5'000'003);

  Exporter exporter;
  Exporter::Piece piece;
  piece.kind = MemoryKind::kVmm;
  piece.allocation_bytes = 4 * kMiB;
  piece.offset = 4099;
  const Exported theirs = exporter.Allocate(piece, Pattern(kMiB, 2));
  REQUIRE_OK(theirs.status);
  const auto imported = memory->Import(theirs.request);
  REQUIRE_OK(imported);
  const auto again = (*imported)->ExportDmaBuf();
  REQUIRE_OK(again);
  const os::UniqueFd client_fd(again->fd);
  CheckDmaBuf("client's cuMemCreate, by the daemon", again->fd, again->offset, kMiB);
}

TEST_CASE("memory of cudaMalloc has the dma-buf that its client passed, and no other") {
  ONECOPY_NEEDS_GPUS(1);
  const auto memory = RealMemory();
  Exporter exporter;
  Exporter::Piece piece;
  piece.allocation_bytes = 4 * kMiB;
  piece.offset = 4099;
  const Exported theirs = exporter.Allocate(piece, Pattern(kMiB, 3));
  REQUIRE_OK(theirs.status);
  {
    const auto without = memory->Import(theirs.request);
    REQUIRE_OK(without);
    CHECK((*without)->ExportDmaBuf().status().reason() == reasons::kGpuNotPinnable);
  }
  const Exporter::DmaBuf dmabuf = exporter.ExportDmaBuf(theirs.id);
  ImportRequest request = theirs.request;
  request.dmabuf_fd = dmabuf.fd.get();
  request.dmabuf_offset = dmabuf.offset;
  const auto imported = memory->Import(request);
  REQUIRE_OK(imported);
  const auto exported = (*imported)->ExportDmaBuf();
  REQUIRE_OK(exported);
  const os::UniqueFd fd(exported->fd);
  CheckDmaBuf("client's cudaMalloc, kept by the daemon", exported->fd, exported->offset, kMiB);

  request.dmabuf_offset = 64 * kMiB;
  CHECK(memory->Import(request).status().reason() == reasons::kBadHandle);
  const auto other = os::SealedMemfd("no dma-buf", 8 * kMiB);
  REQUIRE_OK(other);
  request.dmabuf_fd = other->get();
  request.dmabuf_offset = 0;
  CHECK(memory->Import(request).status().reason() == reasons::kBadHandle);
}

// Not a rule of ours: what this GPU and its driver say, printed.
TEST_CASE("what the driver says of dma-bufs and of the order of remote writes") {
  ONECOPY_NEEDS_GPUS(1);
  const auto gpus = cuda::ListGpus(**TheDriver());
  REQUIRE_OK(gpus);
  for (const cuda::GpuInfo& gpu : *gpus) {
    std::printf("cuda:%d: dma-buf %s, order of remote writes %d, can flush %s\n", gpu.ordinal,
                gpu.dma_buf ? "yes" : "no", gpu.writes_ordering, gpu.flushes ? "yes" : "no");
  }
  const auto memory = RealMemory();
  const auto region = memory->Allocate(gpus->front().uuid, kMiB);
  REQUIRE_OK(region);
  REQUIRE_OK((*region)->FlushRemoteWrites());
}

}  // namespace
}  // namespace onecopy::testing::dmabuf_test
