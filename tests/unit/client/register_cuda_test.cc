// Memory of GPUs that programs register, by a driver without a GPU.
#include "client/lib/memory/register_cuda.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "client/lib/calls/wire.h"
#include "onecopy/reasons.h"
#include "onecopy/v1/buffer.pb.h"
#include "tests/support/fake_cuda.h"
#include "tests/unit/client/client_fixture.h"
#include "tests/unit/client/gpus.h"
#include "transport/memory/process/process_memory.h"
#include "transport/os/memory/mapping.h"
#include "transport/shim/cuda.h"

namespace register_cuda_test {
using onecopy::Client;
using onecopy::Code;
using onecopy::testing::ServedCluster;
using onecopy::testing::TempFolder;
using onecopy::testing::WithGpus;

TEST_CASE("GPU memory is registered in the form in which it can be shared") {
  onecopy::testing::ClientFixture f;
  const onecopy::client::RunDir run_dir = {f.dir.path(), {f.dir.path()}};
  auto attach = onecopy::client::AttachSocket::Connect(run_dir, "test", std::chrono::seconds(5));
  REQUIRE_OK(attach);
  onecopy::shim::CudaExport exported;
  exported.device_uuid = "GPU-5f";
  exported.offset = 512;
  onecopy::v1::RegisterBufferRequest request;
  SECTION("an IPC handle") {
    exported.form = "cuda-ipc";
    exported.handle = std::string(64, 'h');
    REQUIRE_OK(onecopy::client::AddCuda(*attach, exported, request));
    CHECK(request.cuda_ipc().handle() == exported.handle);
    CHECK(request.cuda_ipc().offset_bytes() == 512);
    CHECK(request.cuda_ipc().device() == "GPU-5f");
  }
  SECTION("a descriptor") {
    auto fd = onecopy::os::SealedMemfd("stands for an allocation", 4096);
    REQUIRE_OK(fd);
    exported.form = "cuda-vmm";
    exported.fd = std::move(*fd);
    exported.allocation_bytes = 4096;
    REQUIRE_OK(onecopy::client::AddCuda(*attach, exported, request));
    CHECK(request.cuda_vmm().fd_handle() > 0);
    CHECK(request.cuda_vmm().offset_bytes() == 512);
    CHECK(request.cuda_vmm().allocation_bytes() == 4096);
    CHECK(request.cuda_vmm().device() == "GPU-5f");
  }
  SECTION("a form that is not known") {
    exported.form = "cuda-fabric";
    CHECK(onecopy::client::AddCuda(*attach, exported, request).code() == Code::kInternal);
  }
}

TEST_CASE("a pointer that is no GPU memory is not registered, with the reason") {
  onecopy::testing::ClientFixture f;
  int on_the_stack = 0;
  const onecopy::Status status =
      f.client.RegisterCuda("x", reinterpret_cast<uintptr_t>(&on_the_stack), sizeof on_the_stack)
          .status();
  // NOT_SHAREABLE where there is a driver, else the reason why there is none.
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK_FALSE(status.reason().empty());
  CHECK(f.daemon.buffers().empty());
}

TEST_CASE("GPU memory is exported by the driver that the client names") {
  const TempFolder dir;
  ServedCluster daemon(dir.path(), WithGpus());
  const auto api = onecopy::shim::LoadCuda(onecopy::testing::FakeCudaPath());
  REQUIRE_OK(api);
  constexpr uint64_t kBytes = 2 << 20;
  CUcontext context = nullptr;
  REQUIRE((*api)->DevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  const CUdeviceptr memory = onecopy::testing::FakeCudaFunction<FakeCudaAllocate>(
      "fakeCudaAllocate")(FAKE_CUDA_VMM, 0, kBytes, 0);
  auto client =
      Client::Connect({.run_dir = dir.path(), .cuda_library = onecopy::testing::FakeCudaPath()});
  REQUIRE_OK(client);
  REQUIRE_OK(client->RegisterCuda("x", memory, kBytes));
  REQUIRE(daemon.buffers().size() == 1);
  CHECK(daemon.buffers().front().memory == "cuda");
  CHECK(daemon.buffers().front().bytes == kBytes);
  const auto allocation = client->FindCudaAllocation(memory + 5);
  REQUIRE_OK(allocation);
  CHECK(allocation->start == memory);
  CHECK(allocation->bytes == kBytes);

  // Allocations that are mapped one behind the other are one buffer.
  const CUdeviceptr several = onecopy::testing::FakeCudaFunction<FakeCudaAllocate>(
      "fakeCudaAllocate")(FAKE_CUDA_VMM, 0, kBytes, 99);
  auto* const bytes = reinterpret_cast<unsigned char*>(several);
  for (uint64_t at = 0; at < 100 * kBytes; at += 4096)
    bytes[at] = static_cast<unsigned char>(at >> 21);
  REQUIRE_OK(client->RegisterCuda("many", several + 4096, 99 * kBytes));
  CHECK(client->FindCudaAllocation(several + 4096, 99 * kBytes)->bytes == 100 * kBytes);
  auto copy = client->CreateHostBuffer("copy", 99 * kBytes);
  REQUIRE_OK(copy);
  std::memcpy(copy->data(), bytes + 4096, 99 * kBytes);
  const auto many_sum = client->SumBuffer({"", "many"});
  REQUIRE_OK(many_sum);
  const auto copy_sum = client->SumBuffer({"", "copy"});
  REQUIRE_OK(copy_sum);
  CHECK(many_sum->value == copy_sum->value);
  CHECK(client->RegisterCuda("beyond", several, 100 * kBytes + 1).status().reason() ==
        onecopy::reasons::kRangeOutOfBuffer);

  auto other = Client::Connect({.run_dir = dir.path(), .cuda_library = "/nonexistent/libcuda.so"});
  REQUIRE_OK(other);
  CHECK(other->FindCudaAllocation(memory).status().reason() == onecopy::reasons::kNoDriver);
  const onecopy::Status status = other->RegisterCuda("y", memory, kBytes).status();
  CHECK(status.reason() == onecopy::reasons::kNoDriver);
  CHECK(status.message().find("/nonexistent/libcuda.so") != std::string::npos);
  (*api)->DevicePrimaryCtxRelease(0);
}

TEST_CASE(
    "GPU memory that no other process can map is copied by this one, and goes by its number") {
  const TempFolder dir;
  ServedCluster daemon(dir.path(), [](const std::string& node, onecopy::testing::NodePlan& plan) {
    plan.memories.push_back(std::make_unique<onecopy::process::ProcessMemory>(
        node, uint64_t{4} << 20, std::chrono::seconds(10)));
  });
  const auto api = onecopy::shim::LoadCuda(onecopy::testing::FakeCudaPath());
  REQUIRE_OK(api);
  constexpr uint64_t kBytes = 5 << 20;
  CUcontext context = nullptr;
  REQUIRE((*api)->DevicePrimaryCtxRetain(&context, 1) == CUDA_SUCCESS);
  {
    auto client =
        Client::Connect({.run_dir = dir.path(), .cuda_library = onecopy::testing::FakeCudaPath()});
    REQUIRE_OK(client);
    auto plain = client->CreateHostBuffer("plain", kBytes);
    REQUIRE_OK(plain);
    const auto allocate = onecopy::testing::FakeCudaFunction<FakeCudaAllocate>("fakeCudaAllocate");
    for (const FakeCudaKind kind : {FAKE_CUDA_POOL, FAKE_CUDA_MANAGED, FAKE_CUDA_VMM_NO_HANDLE}) {
      INFO(kind);
      const CUdeviceptr memory = allocate(kind, 1, kBytes, 0);
      std::memset(reinterpret_cast<void*>(memory), 10 + static_cast<int>(kind), kBytes);
      const std::string name = "own-" + std::to_string(kind);
      const auto registered = client->RegisterCuda(name, memory + 7, kBytes - 7);
      REQUIRE_OK(registered);
      CHECK(registered->form == "process-gpu");
      CHECK(registered->memory == "cuda");
      onecopy::TransferRequest request;
      request.source = {"", name};
      request.destination = {"", "plain", 7, kBytes - 7};
      const auto done = client->RunTransfer(request);
      REQUIRE_OK(done);
      REQUIRE_OK(onecopy::OutcomeOf(*done));
      CHECK(done->receipt.steps.front().step.from == "process-gpu");
      CHECK(done->receipt.steps.front().step.by == "client");
      CHECK(std::memcmp(plain->data() + 7, reinterpret_cast<void*>(memory + 7), kBytes - 7) == 0);
      // Every other 4 KiB of it, the other way.
      std::memset(plain->data(), 99, kBytes);
      request.source = {"", "plain"};
      request.destination = {"", name};
      request.ranges = {{{0, 4096, 4096, 500}, {0, 4096, 8192, 500}}};
      const auto back = client->RunTransfer(request);
      REQUIRE_OK(back);
      REQUIRE_OK(onecopy::OutcomeOf(*back));
      const auto* const bytes = reinterpret_cast<const unsigned char*>(memory + 7);
      CHECK(bytes[8192] == 99);
      CHECK(bytes[4096] == 10 + static_cast<int>(kind));
      CHECK(bytes[499 * 8192 + 4095] == 99);
      request.policy.at_most_copies = 1;
      CHECK(client->RunTransfer(request).status().reason() == onecopy::reasons::kPolicyUnmet);
    }
    CHECK(client->RegisterCuda("beyond", allocate(FAKE_CUDA_POOL, 1, kBytes, 0), kBytes + 1)
              .status()
              .reason() == onecopy::reasons::kRangeOutOfBuffer);
    CHECK(client->RegisterCuda("pinned", allocate(FAKE_CUDA_PINNED_HOST, 1, kBytes, 0), kBytes)
              .status()
              .reason() == onecopy::reasons::kNotShareable);
  }
  // Context, streams and the slab's pages have been let go of.
  const int leaks = onecopy::testing::FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")();
  (*api)->DevicePrimaryCtxRelease(1);
  CHECK(onecopy::testing::FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")() == leaks);
}

TEST_CASE("long copies of a GPU's memory go by the ring, and watches are told of them") {
  onecopy::testing::ClientFixture f(WithGpus());
  constexpr uint64_t kBytes = 5 << 20;
  for (const auto& [name, memory] :
       {std::pair{"a", "cuda:0"}, {"b", "cuda:0"}, {"h", "host"}, {"i", "host"}}) {
    REQUIRE_OK(f.client.CreateBuffer({.name = name, .bytes = kBytes, .memory = memory}));
  }
  auto pattern = f.client.CreateHostBuffer("pattern", kBytes);
  REQUIRE_OK(pattern);
  for (uint64_t at = 0; at < kBytes; ++at)
    pattern->data()[at] = static_cast<std::byte>(at * 7 >> 3);
  // Who carried it, seen by the daemon.
  const auto carrier = [&](const std::string& from, const std::string& to,
                           std::optional<uint64_t> part = {}) {
    const uint64_t bytes = part.value_or(kBytes);
    const auto done =
        f.client.RunTransfer({.source = {"", from, 0, bytes}, .destination = {"", to, 0, bytes}});
    REQUIRE_OK(done);
    REQUIRE_OK(onecopy::OutcomeOf(*done));
    REQUIRE(done->receipt.steps.size() == 1);
    CHECK(done->receipt.steps.front().bytes == bytes);
    const auto known = f.client.GetTransfer(done->id);
    REQUIRE_OK(known);
    CHECK(known->bytes_done == bytes);
    const auto& evidence = known->receipt.evidence;
    return evidence.contains("submitted") ? evidence.at("submitted") : std::string("grpc");
  };
  CHECK(carrier("pattern", "a") == "grpc");
  CHECK(carrier("pattern", "a") == "ring");
  CHECK(carrier("a", "b") == "grpc");
  CHECK(carrier("a", "b") == "ring");
  const auto want = f.client.SumBuffer({"", "pattern"});
  const auto sum = f.client.SumBuffer({"", "b"});
  REQUIRE_OK(want);
  REQUIRE_OK(sum);
  CHECK(sum->value == want->value);
  // The ring's thread would copy these itself.
  for (int i = 0; i < 3; ++i) CHECK(carrier("h", "i") == "grpc");
  CHECK(carrier("h", "i", 4096) == "ring");
  CHECK(carrier("h", "i") == "grpc");
  {
    auto watch = f.client.WatchArrivals("b");
    REQUIRE_OK(watch);
    for (int i = 0; i < 3; ++i) {
      CHECK(carrier("a", "b") == "ring");
      const auto told = watch->Wait({}, std::chrono::seconds(20), 1);
      REQUIRE_OK(told);
      REQUIRE(told->arrivals.size() == 1);
      CHECK(told->arrivals.front().bytes == kBytes);
    }
    CHECK(carrier("a", "b", 4096) == "ring");
  }
}
}  // namespace register_cuda_test
