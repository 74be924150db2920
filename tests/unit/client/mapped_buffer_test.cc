// Buffers that a client has mapped: in host memory, and by a driver without a GPU.
#include "onecopy/mapped_buffer.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/fake_cuda.h"
#include "tests/unit/client/client_fixture.h"
#include "tests/unit/client/gpus.h"
#include "transport/memory/process/process_memory.h"
#include "transport/os/memory/mapping.h"
#include "transport/shim/cuda.h"

namespace mapped_buffer_test {
using namespace onecopy;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kMappedBytes = 10'000;
constexpr uint64_t kGranule = 2 << 20;

bool Told(const MappedBuffer& mapped) {
  pollfd polled{mapped.revocation_fd(), POLLIN, 0};
  return ::poll(&polled, 1, 0) == 1;
}

void CheckRefused(const Status& status, Code code, std::string_view reason) {
  INFO(status.ToString());
  CHECK(status.code() == code);
  CHECK(status.reason() == reason);
}

// A client whose driver is the fake one, of a daemon with its GPUs.
struct GpuFixture : ClientFixture {
  GpuFixture() : ClientFixture(WithGpus(), {.cuda_library = FakeCudaPath()}) {}

  void Create(const std::string& name, const std::string& memory) {
    REQUIRE_OK(client.CreateBuffer({.name = name, .bytes = kMappedBytes, .memory = memory}));
  }
  // The bytes as the daemon has them.
  std::string SumOf(const std::string& name) {
    const auto sum = client.SumBuffer({"", name});
    REQUIRE_OK(sum);
    return sum->value;
  }
};

}  // namespace

TEST_CASE("a client maps a buffer, asks whether it may use it, and closes it") {
  ClientFixture f;
  const auto made = f.client.CreateBuffer({.name = "a", .bytes = kMappedBytes, .memory = "host"});
  REQUIRE_OK(made);
  auto mapped = f.client.MapBuffer("a");
  REQUIRE_OK(mapped);
  auto again = f.client.MapBuffer("east:" + made->id);
  REQUIRE_OK(again);
  CHECK(mapped->bytes() == kMappedBytes);
  CHECK(mapped->info().id == made->id);
  CHECK_FALSE(mapped->cuda_device().has_value());
  CHECK(mapped->data() != again->data());
  std::memset(mapped->data(), 0x42, kMappedBytes);
  CHECK(std::memcmp(mapped->data(), again->data(), kMappedBytes) == 0);
  REQUIRE_OK(mapped->CheckValid());
  CHECK_FALSE(Told(*mapped));

  MappedBuffer moved = std::move(*again);
  CHECK(again->data() == nullptr);
  REQUIRE_OK(moved.Close());
  REQUIRE_OK(moved.Close());
  CHECK(moved.data() == nullptr);
  CHECK(moved.bytes() == 0);
  CHECK(moved.revocation_fd() == -1);
  CheckRefused(moved.CheckValid(), Code::kCancelled, reasons::kCancelled);
  REQUIRE_OK(mapped->CheckValid());

  CheckRefused(f.client.DeleteBuffer("a"), Code::kFailedPrecondition, reasons::kBufferInUse);
  REQUIRE_OK(f.client.DeleteBuffer("a", true));
  for (int i = 0; i < 2; ++i) {  // asking takes nothing away
    CheckRefused(mapped->CheckValid(), Code::kNotFound, reasons::kBufferNotFound);
    CHECK(Told(*mapped));
  }
  REQUIRE_OK(mapped->Close());
}

TEST_CASE("what cannot be mapped is refused with the reason") {
  ClientFixture f([](const std::string& node, NodePlan& plan) {
    plan.memories.push_back(
        std::make_unique<process::ProcessMemory>(node, 1 << 20, std::chrono::seconds(10)));
  });
  std::vector<char> ordinary(kMappedBytes);
  REQUIRE_OK(f.client.RegisterMemory("ordinary", ordinary.data(), ordinary.size()));
  REQUIRE_OK(f.client.CreateBuffer({.name = "a", .bytes = kMappedBytes, .memory = "host"}));
  CheckRefused(f.client.MapBuffer("ordinary").status(), Code::kFailedPrecondition,
               reasons::kNotShareable);
  CheckRefused(f.client.MapBuffer("west:a").status(), Code::kFailedPrecondition,
               reasons::kOtherNode);
  CheckRefused(f.client.MapBuffer("none").status(), Code::kNotFound, reasons::kBufferNotFound);
  CheckRefused(f.client.MapBuffer(std::string(300, 'x')).status(), Code::kInvalidArgument,
               reasons::kBadName);
  CheckRefused(f.client.MapBuffer("a", {.cuda_device = 0}).status(), Code::kInvalidArgument,
               reasons::kBadArgument);
  REQUIRE_OK(f.client.DeleteBuffer("ordinary", true));
}

TEST_CASE("a piece of a memory file is mapped where it lies, and its client may end it") {
  ClientFixture f;
  auto file = os::SealedMemfd("test", 5 * kMappedBytes);
  REQUIRE_OK(file);
  auto own = os::MapShared(file->get(), 5 * kMappedBytes);
  REQUIRE_OK(own);
  REQUIRE_OK(f.client.RegisterMemfd("piece", file->get(), 4099, kMappedBytes));
  auto mapped = f.client.MapBuffer("piece");
  REQUIRE_OK(mapped);
  std::memset(mapped->data(), 0x42, kMappedBytes);
  CHECK(own->data()[4098] == std::byte{0});
  CHECK(own->data()[4099] == std::byte{0x42});
  CHECK(own->data()[4099 + kMappedBytes] == std::byte{0});
}

TEST_CASE("a mapping outlives the client that made it, and goes with its daemon") {
  auto f = std::make_unique<ClientFixture>();
  REQUIRE_OK(f->client.CreateBuffer({.name = "a", .bytes = kMappedBytes, .memory = "host"}));
  auto mapped = f->client.MapBuffer("a");
  REQUIRE_OK(mapped);
  f->EndClient();
  REQUIRE_OK(mapped->CheckValid());
  f.reset();
  // This one ends its sessions first.
  CheckRefused(mapped->CheckValid(), Code::kUnauthenticated, reasons::kNoSession);
  static_cast<unsigned char*>(mapped->data())[0] = 1;
}

TEST_CASE("a forked child may use what its parent has mapped, and closes nothing but its own") {
  GpuFixture f;
  f.Create("host", "host");
  f.Create("gpu", "cuda:0");
  auto host = f.client.MapBuffer("host");
  auto gpu = f.client.MapBuffer("gpu");
  REQUIRE_OK(host);
  REQUIRE_OK(gpu);
  const pid_t child = ::fork();
  if (child == 0) {
    static_cast<unsigned char*>(host->data())[5] = 55;
    const bool well = host->CheckValid().ok() && host->Close().ok() && gpu->Close().ok();
    ::_exit(well ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(static_cast<unsigned char*>(host->data())[5] == 55);
  REQUIRE_OK(host->CheckValid());
  REQUIRE_OK(gpu->CheckValid());
  REQUIRE_OK(gpu->Close());
}

TEST_CASE("GPU memory of the daemon is mapped on its GPU, or on one that reaches it") {
  GpuFixture f;
  f.Create("a", "cuda:1");
  f.Create("b", "host");
  auto mapped = f.client.MapBuffer("a");
  REQUIRE_OK(mapped);
  REQUIRE(mapped->cuda_device().has_value());
  const int own = *mapped->cuda_device();
  CHECK(mapped->info().memory == "cuda");
  auto peer = f.client.MapBuffer("a", {.cuda_device = 1 - own});
  REQUIRE_OK(peer);
  CHECK(peer->cuda_device() == 1 - own);
  // The fake's memory is the host's.
  std::memset(mapped->data(), 0x42, kMappedBytes);
  CHECK(std::memcmp(mapped->data(), peer->data(), kMappedBytes) == 0);
  auto host = f.client.MapBuffer("b");
  REQUIRE_OK(host);
  std::memset(host->data(), 0x42, kMappedBytes);
  CHECK(f.SumOf("a") == f.SumOf("b"));
  CheckRefused(f.client.MapBuffer("a", {.cuda_device = 9}).status(), Code::kNotFound,
               reasons::kDeviceNotFound);
  {
    const ScopedEnvironment none("FAKE_CUDA_NO_PEER", "1");
    CheckRefused(f.client.MapBuffer("a", {.cuda_device = 1 - own}).status(),
                 Code::kFailedPrecondition, reasons::kNoPeerAccess);
  }
  REQUIRE_OK(peer->Close());
  REQUIRE_OK(mapped->Close());
  auto without =
      Client::Connect({.run_dir = f.dir.path(), .cuda_library = "/nonexistent/libcuda.so"});
  REQUIRE_OK(without);
  CheckRefused(without->MapBuffer("a").status(), Code::kFailedPrecondition, reasons::kNoDriver);
}

TEST_CASE("GPU memory that a process has registered is mapped, in one allocation or in several") {
  GpuFixture f;
  CUcontext context = nullptr;
  const auto api = shim::LoadCuda(FakeCudaPath());
  REQUIRE_OK(api);
  REQUIRE((*api)->DevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  auto* const allocate = FakeCudaFunction<FakeCudaAllocate>("fakeCudaAllocate");
  const CUdeviceptr several = allocate(FAKE_CUDA_VMM, 0, kGranule, 4);
  REQUIRE_OK(f.client.RegisterCuda("several", several + 4099, 4 * kGranule));
  auto mapped = f.client.MapBuffer("several");
  REQUIRE_OK(mapped);
  auto* const own = reinterpret_cast<unsigned char*>(several);
  std::memset(mapped->data(), 0x42, 4 * kGranule);
  CHECK(own[4099] == 0x42);
  CHECK(own[4098 + 4 * kGranule] == 0x42);
  CHECK(own[4099 + 4 * kGranule] != 0x42);
  REQUIRE_OK(mapped->Close());

  const CUdeviceptr many = allocate(FAKE_CUDA_VMM, 0, kGranule, 99);
  REQUIRE_OK(f.client.RegisterCuda("many", many, 100 * kGranule));
  CheckRefused(f.client.MapBuffer("many").status(), Code::kFailedPrecondition,
               reasons::kNotShareable);
  (*api)->DevicePrimaryCtxRelease(0);
}
}  // namespace mapped_buffer_test
