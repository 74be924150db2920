// Pools of GPU memory, and pinned ones, by a driver without a GPU.
#include "onecopy/pool.h"

#include "tests/unit/client/gpu_pool_fixture.h"

using onecopy::Code;
using onecopy::Pool;
using onecopy::PoolOptions;
using onecopy::PoolSlab;
using onecopy::Result;
using onecopy::Status;
using onecopy::testing::FakeCudaFunction;
using onecopy::testing::FakeCudaPath;
using onecopy::testing::GpuPoolFixture;
using onecopy::testing::kMiB;
using onecopy::testing::ScopedEnvironment;

namespace {

constexpr uint64_t kSlab = 4 * kMiB;

bool IsOpen(int device) {
  const auto api = *onecopy::shim::LoadCuda(FakeCudaPath());
  unsigned flags = 0;
  int active = 0;
  REQUIRE(api->DevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS);
  return active != 0;
}

}  // namespace

TEST_CASE("a GPU's slabs lie side by side, and each is a buffer of its own") {
  GpuPoolFixture f;
  const auto pool = f.Make({.name = "p", .slab_bytes = kSlab, .limit_bytes = 16 * kSlab});
  CHECK(pool->cuda_device() == 0);
  CHECK(f.daemon.buffers().empty());
  std::vector<std::byte*> pieces;
  for (int i = 0; i < 3; ++i) pieces.push_back(GpuPoolFixture::Have(*pool, kSlab, 10 + i));
  CHECK(pieces[1] == pieces[0] + kSlab);
  CHECK(pieces[2] == pieces[1] + kSlab);
  const std::vector<PoolSlab> slabs = pool->slabs();
  REQUIRE(slabs.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    INFO(i);
    CHECK(slabs[i].data == pieces[i]);
    CHECK_FALSE(slabs[i].managed);
    CHECK(slabs[i].buffer.name == "p." + std::to_string(i + 1));
    CHECK(slabs[i].buffer.form == "cuda-vmm");
    CHECK(slabs[i].buffer.memory == "cuda");
    CHECK(slabs[i].buffer.bytes == kSlab);
    // What the daemon has mapped is that slab, and no neighbour's.
    auto copy = f.client.CreateHostBuffer("", kSlab);
    REQUIRE_OK(copy);
    f.Move(*pool->endpoint(pieces[i]), copy->endpoint());
    CHECK(GpuPoolFixture::Holds(copy->data(), kSlab, 10 + static_cast<int>(i)));
  }
  CHECK(f.daemon.buffers().size() == 3);
  CHECK(pool->statistics().bytes_reserved == 3 * kSlab);
  CHECK(pool->statistics().bytes_managed == 0);
}

TEST_CASE("pieces of a GPU's pool move, and what lies beside them stays") {
  GpuPoolFixture f;
  const auto from = f.Make({.slab_bytes = kSlab});
  const auto to = f.Make({.cuda_device = 1, .slab_bytes = kSlab});
  std::byte* const source = GpuPoolFixture::Have(*from, 100'000, 1);
  std::byte* const before = GpuPoolFixture::Have(*to, 1000, 2);
  std::byte* const target = GpuPoolFixture::Have(*to, 100'000, 3);
  std::byte* const behind = GpuPoolFixture::Have(*to, 1000, 4);
  const auto done = f.Move(*from->endpoint(source + 7, 50'000), *to->endpoint(target + 13, 50'000));
  CHECK(done.receipt.path == "peer-direct");
  CHECK(done.receipt.steps.size() == 1);
  CHECK(GpuPoolFixture::Holds(target, 13, 3));
  CHECK(GpuPoolFixture::Holds(target + 13, 50'000, 1));
  CHECK(GpuPoolFixture::Holds(target + 50'013, 49'987, 3));
  CHECK(GpuPoolFixture::Holds(before, 1000, 2));
  CHECK(GpuPoolFixture::Holds(behind, 1000, 4));
}

TEST_CASE("the addresses of a slab that went are had again") {
  GpuPoolFixture f;
  const auto pool = f.Make({.slab_bytes = kSlab, .limit_bytes = 3 * kSlab});
  std::vector<std::byte*> pieces;
  for (int i = 0; i < 3; ++i) pieces.push_back(GpuPoolFixture::Have(*pool, kSlab, i));
  REQUIRE_OK(pool->Deallocate(pieces[1]));
  const Result<uint64_t> trimmed = pool->Trim();
  REQUIRE_OK(trimmed);
  CHECK(*trimmed == kSlab);
  CHECK(f.daemon.buffers().size() == 2);
  CHECK(GpuPoolFixture::Have(*pool, kSlab, 5) == pieces[1]);
  auto copy = f.client.CreateHostBuffer("", kSlab);
  REQUIRE_OK(copy);
  f.Move(*pool->endpoint(pieces[1]), copy->endpoint());
  CHECK(GpuPoolFixture::Holds(copy->data(), kSlab, 5));
  // Nor is a larger slab lost for want of addresses in one piece.
  for (std::byte* const piece : pieces) REQUIRE_OK(pool->Deallocate(piece));
  CHECK(GpuPoolFixture::Have(*pool, 3 * kSlab, 6) == pieces[0]);
}

TEST_CASE("a GPU that is full is told with what is free, and what was there stays") {
  GpuPoolFixture f(10 * kMiB);
  const auto pool = f.Make({.slab_bytes = kSlab});
  std::byte* const one = GpuPoolFixture::Have(*pool, kSlab, 1);
  GpuPoolFixture::Have(*pool, kSlab, 2);
  // Too little for another slab as they are, enough for a small one.
  GpuPoolFixture::Have(*pool, kMiB, 3);
  CHECK(pool->statistics().bytes_reserved == 10 * kMiB);
  const Status full = pool->Allocate(kSlab).status();
  CHECK(full.code() == Code::kResourceExhausted);
  CHECK(full.reason() == onecopy::reasons::kNoMemory);
  INFO(full);
  CHECK(full.message().find("0 B of 4 GiB are free") != std::string::npos);
  CHECK(full.message().find("GPU 0 (Fake GPU 0)") != std::string::npos);
  CHECK(full.remedy().find("managed_overflow") != std::string::npos);
  REQUIRE_OK(pool->Deallocate(one));
  CHECK(GpuPoolFixture::Have(*pool, kSlab, 4) == one);
  CHECK(f.daemon.buffers().size() == 3);
}

TEST_CASE("what a GPU has no room for is managed memory, which is copied once more") {
  GpuPoolFixture f(kSlab);
  const auto pool = f.Make(
      {.cuda_device = 1, .managed_overflow = true, .slab_bytes = kSlab, .limit_bytes = 3 * kSlab});
  std::byte* const on_gpu = GpuPoolFixture::Have(*pool, kSlab, 1);
  std::byte* const managed = GpuPoolFixture::Have(*pool, 3 * kMiB, 2);
  CHECK(pool->statistics().bytes_managed == kSlab);
  CHECK(pool->statistics().bytes_reserved == 2 * kSlab);
  int managed_slabs = 0;
  for (const PoolSlab& slab : pool->slabs()) {
    managed_slabs += slab.managed ? 1 : 0;
    CHECK(slab.managed == (slab.data == managed));
    CHECK(slab.buffer.form == (slab.managed ? "process-gpu" : "cuda-vmm"));
  }
  CHECK(managed_slabs == 1);
  const auto done = f.Move(*pool->endpoint(managed), *pool->endpoint(on_gpu, 3 * kMiB));
  CHECK(done.receipt.steps.size() == 2);
  CHECK(GpuPoolFixture::Holds(on_gpu, 3 * kMiB, 2));
  // The limit is of both.
  CHECK(pool->Allocate(2 * kSlab).status().reason() == onecopy::reasons::kQuota);
  REQUIRE_OK(pool->Deallocate(managed));
  CHECK(*pool->Trim() == kSlab);
  CHECK(pool->statistics().bytes_managed == 0);
  CHECK(f.daemon.buffers().size() == 1);
}

TEST_CASE("a pinned pool's memory is what GPUs copy from and to") {
  GpuPoolFixture f;
  const auto api = *onecopy::shim::LoadCuda(FakeCudaPath());
  CUcontext context = nullptr;
  REQUIRE(api->DevicePrimaryCtxRetain(&context, 1) == CUDA_SUCCESS);
  auto pool = f.Make({.pinned = true, .slab_bytes = kMiB});
  CHECK_FALSE(pool->cuda_device());
  std::byte* const piece = GpuPoolFixture::Have(*pool, 1000, 7);
  {
    const onecopy::shim::ScopedCudaContext scope(*api, context);
    CUdeviceptr there = 0;
    CUstream stream = nullptr;
    REQUIRE(api->MemAlloc(&there, 1000) == CUDA_SUCCESS);
    REQUIRE(api->StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    // Such a driver takes pinned memory alone.
    std::vector<std::byte> plain(1000);
    CHECK(api->MemcpyHtoDAsync(there, plain.data(), 1000, stream) != CUDA_SUCCESS);
    CHECK(api->MemcpyHtoDAsync(there, piece, 1000, stream) == CUDA_SUCCESS);
    CHECK(api->StreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(GpuPoolFixture::Holds(reinterpret_cast<void*>(there), 1000, 7));
    REQUIRE_OK(pool->Deallocate(piece));
    CHECK(*pool->Trim() == kMiB);
    api->StreamDestroy(stream);
    api->MemFree(there);
  }
  CHECK(pool->Allocate(1, 5).status().reason() == onecopy::reasons::kBadArgument);
  pool.reset();
  const int leaks = FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")();
  api->DevicePrimaryCtxRelease(1);
  CHECK_FALSE(IsOpen(1));
  CHECK(FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")() == leaks);
}

TEST_CASE("a pool that cannot be is refused, with the reason") {
  GpuPoolFixture f;
  const PoolOptions gpu{.cuda_device = 0};
  CHECK(f.Refused({.cuda_device = 7}).reason() == onecopy::reasons::kDeviceNotFound);
  CHECK(f.Refused({.cuda_device = -1}).reason() == onecopy::reasons::kDeviceNotFound);
  CHECK(f.Refused({.cuda_device = 0, .pinned = true}).reason() == onecopy::reasons::kBadArgument);
  CHECK(f.Refused({.managed_overflow = true}).reason() == onecopy::reasons::kBadArgument);
  CHECK(f.Refused({.cuda_device = 0, .slab_bytes = 0}).reason() == onecopy::reasons::kBadSize);
  {
    const ScopedEnvironment mig("FAKE_CUDA_MIG", "1");
    const Status refused = f.Refused(gpu);
    CHECK(refused.reason() == onecopy::reasons::kNotShareable);
    CHECK(refused.message().find("MIG") != std::string::npos);
  }
  {
    const ScopedEnvironment none("FAKE_CUDA_NO_POSIX_FD", "1");
    const Status refused = f.Refused(gpu);
    CHECK(refused.reason() == onecopy::reasons::kNotShareable);
    CHECK(refused.message().find("POSIX file descriptors") != std::string::npos);
  }
  auto without = onecopy::Client::Connect(
      {.run_dir = f.dir.path(), .cuda_library = "/nonexistent/libcuda.so"});
  REQUIRE_OK(without);
  CHECK(without->CreatePool(gpu).status().reason() == onecopy::reasons::kNoDriver);
  CHECK(without->CreatePool({.pinned = true}).status().reason() == onecopy::reasons::kNoDriver);
  REQUIRE_OK(without->CreatePool());
  CHECK(f.daemon.buffers().empty());
}

TEST_CASE("a pool holds its GPU open, leaves the caller's context alone, and lets go of all") {
  GpuPoolFixture f;
  const auto api = *onecopy::shim::LoadCuda(FakeCudaPath());
  CUcontext context = nullptr;
  REQUIRE(api->DevicePrimaryCtxRetain(&context, 1) == CUDA_SUCCESS);
  {
    const onecopy::shim::ScopedCudaContext scope(*api, context);
    REQUIRE_FALSE(IsOpen(0));
    auto pool = f.Make({.slab_bytes = kSlab, .initial_bytes = kSlab});
    CHECK(IsOpen(0));
    CHECK(GpuPoolFixture::Have(*pool, 2 * kSlab, 1) != nullptr);
    REQUIRE_OK(pool->ReleaseStream(0));
    const int leaks = FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")();
    pool.reset();
    CHECK(f.daemon.buffers().empty());
    CHECK(FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")() == leaks);
  }
  // The scope's end has found the context that it began with.
  CUcontext none = nullptr;
  CHECK(api->CtxPopCurrent(&none) == CUDA_ERROR_INVALID_CONTEXT);
  api->DevicePrimaryCtxRelease(1);
}

TEST_CASE("a pool that outlives the driver fails, and ends") {
  GpuPoolFixture f;
  const auto end = FakeCudaFunction<FakeCudaEnd>("fakeCudaEnd");
  auto pool = f.Make({.slab_bytes = kSlab});
  std::byte* const piece = GpuPoolFixture::Have(*pool, 100, 1);
  end(true);
  CHECK(pool->Allocate(2 * kSlab).status().reason() == onecopy::reasons::kDriverFailed);
  CHECK(pool->Deallocate(piece, 100, 0x1000).reason() == onecopy::reasons::kDriverFailed);
  REQUIRE_OK(pool->Deallocate(piece));
  pool.reset();
  end(false);
}
