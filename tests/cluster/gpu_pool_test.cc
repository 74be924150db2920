// Pools of GPU memory with real daemons, by a driver that has no GPU: such memory is the host's,
// and its descriptors are memory files.
#include <cstring>
#include <memory>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/in_child.h"

namespace gpu_pool_test {
namespace {

using onecopy::Client;
using onecopy::Code;
using onecopy::Pool;
using onecopy::PoolOptions;
using onecopy::Status;
using onecopy::TransferInfo;
using onecopy::TransferState;
using namespace onecopy::testing;

constexpr uint64_t kSlab = uint64_t{4} << 20;

std::string GpuConfig() { return "[libraries]\ncuda = \"" + FakeCudaPath() + "\"\n"; }

Client ConnectWithGpus(const Node& node) {
  return Must(Client::Connect({.run_dir = node.run_dir(), .cuda_library = FakeCudaPath()}));
}

std::byte* HaveOnGpu(Pool& pool, uint64_t bytes, uint64_t seed) {
  auto* const at = static_cast<std::byte*>(Must(pool.Allocate(bytes)));
  const std::string payload = Payload(bytes, seed);
  std::memcpy(at, payload.data(), bytes);
  return at;
}

}  // namespace

TEST_CASE("pieces of two processes' GPUs move in one copy, and are no registrations of their own") {
  Pair pair(GpuConfig());
  Client east = ConnectWithGpus(pair.east);
  Client west = ConnectWithGpus(pair.west);
  const auto from = Must(east.CreatePool({.name = "from", .cuda_device = 0, .slab_bytes = kSlab}));
  const auto to = Must(west.CreatePool({.name = "to", .cuda_device = 1, .slab_bytes = kSlab}));
  for (uint64_t i = 0; i < 12; ++i) {
    INFO(i);
    const uint64_t bytes = 1 + i * 123'457;
    std::byte* const source = HaveOnGpu(*from, bytes, i);
    std::byte* const target = HaveOnGpu(*to, bytes, 100 + i);
    const TransferInfo done = Must(east.RunTransfer({.source = Must(from->endpoint(source)),
                                                     .destination = Must(to->endpoint(target)),
                                                     .checksum = true}));
    CHECK(done.state == TransferState::kSucceeded);
    CHECK(done.receipt.path == "peer-direct");
    CHECK(done.receipt.steps.size() == 1);
    REQUIRE(done.receipt.checksum);
    CHECK(done.receipt.checksum->verified);
    CHECK(IsPayload(target, bytes, i));
  }
  CHECK(Must(east.ListBuffers()).size() == from->statistics().slabs);
  CHECK(from->statistics().slabs == 3);
  for (const onecopy::PoolSlab& slab : from->slabs()) CHECK(slab.buffer.form == "cuda-vmm");
}

TEST_CASE("a pool on a GPU outlives its daemon, with its bytes, its names, and what overflowed") {
  Node east("east", {.config = GpuConfig()});
  Client client = ConnectWithGpus(east);
  const auto pool = Must(client.CreatePool(
      {.name = "g", .cuda_device = 0, .managed_overflow = true, .slab_bytes = kSlab}));
  std::byte* const piece = HaveOnGpu(*pool, kSlab, 3);
  FakeCudaFunction<FakeCudaSetRoom>("fakeCudaSetRoom")(1);
  std::byte* const managed = HaveOnGpu(*pool, kSlab, 4);
  FakeCudaFunction<FakeCudaSetRoom>("fakeCudaSetRoom")(0);
  std::byte* const target = HaveOnGpu(*pool, kSlab, 5);
  CHECK(pool->statistics().bytes_managed == kSlab);
  const auto before = Must(pool->endpoint(piece));
  east.Kill();
  CHECK(pool->Allocate(1).status().code() == Code::kUnavailable);
  east.Restart();
  Must(client.Ping());
  CHECK(client.session().lost.empty());
  CHECK(client.session().restored.size() == 3);
  CHECK(Must(pool->endpoint(piece)).buffer != before.buffer);
  CHECK(Must(client.GetBuffer("", "g.1")).id == Must(pool->endpoint(piece)).buffer);
  uint64_t seed = 3;
  for (std::byte* const source : {piece, managed}) {
    const TransferInfo done = Must(client.RunTransfer(
        {.source = Must(pool->endpoint(source)), .destination = Must(pool->endpoint(target))}));
    CHECK(done.state == TransferState::kSucceeded);
    CHECK(IsPayload(target, kSlab, seed++));
  }
  // What the last daemon has of it goes, too.
  for (std::byte* const each : {piece, managed, target}) Must(pool->Deallocate(each));
  CHECK(Must(pool->Trim()) == 3 * kSlab);
  CHECK(Must(client.ListBuffers()).empty());
}

TEST_CASE("the daemon's limit refuses a slab of a GPU, and leaves nothing behind") {
  Node east("east",
            {.config = GpuConfig() +
                       "[limits]\nbuffers_per_user = 1\nbuffers = 1\nreserved_percent = 0\n"});
  Client client = ConnectWithGpus(east);
  // Nor is it a reason for managed memory.
  const auto pool =
      Must(client.CreatePool({.cuda_device = 0, .managed_overflow = true, .slab_bytes = kSlab}));
  std::byte* const piece = HaveOnGpu(*pool, kSlab, 1);
  const Status refused = pool->Allocate(1).status();
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK(refused.reason() == "QUOTA");
  CHECK(pool->statistics().bytes_reserved == kSlab);
  CHECK(IsPayload(piece, kSlab, 1));
  Must(pool->Deallocate(piece));
  CHECK(Must(pool->Allocate(kSlab)) == piece);
}

TEST_CASE("a child has no part in its parent's GPU") {
  Node east("east", {.config = GpuConfig()});
  Client client = ConnectWithGpus(east);
  auto pool = Must(client.CreatePool({.cuda_device = 0, .slab_bytes = kSlab}));
  std::byte* const piece = HaveOnGpu(*pool, 100, 1);
  CHECK(InChild([&] {
          if (pool->Allocate(1).status().reason() != "FORKED") return 1;
          if (pool->Deallocate(piece, 0, 2).reason() != "FORKED") return 2;
          if (pool->ReleaseStream(2).reason() != "FORKED") return 3;
          if (!pool->slabs().empty()) return 4;
          pool.reset();
          return 0;
        }) == 0);
  CHECK(Must(client.ListBuffers()).size() == 1);
  Must(pool->Deallocate(piece));
}
}  // namespace gpu_pool_test
