#include "transport/memory/cuda/gpu_info.h"

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"

namespace onecopy::cuda {
namespace {

GpuInfo Gpu(int ordinal, const std::string& uuid, const std::string& pci) {
  GpuInfo gpu;
  gpu.ordinal = ordinal;
  gpu.uuid = uuid;
  gpu.pci = pci;
  return gpu;
}

const std::vector<GpuInfo> kTwo = {
    Gpu(0, "GPU-5f3c0a11-0000-1111-2222-333344445555", "0000:1b:00.0"),
    Gpu(1, "GPU-5f3c0a11-9999-1111-2222-333344445555", "0001:1b:00.0"),
};
const std::vector<GpuInfo> kOne = {kTwo.front()};

TEST_CASE("a GPU is found by its number, its UUID and its PCI address") {
  const std::vector<std::pair<std::string, size_t>> names = {
      {"cuda:0", 0},
      {"cuda:1", 1},
      {"GPU-5f3c0a11-9999-1111-2222-333344445555", 1},
      {"gpu-5F3C0A11-9999-1111-2222-333344445555", 1},
      {"5f3c0a1199991111222233334444555", 1},
      {"GPU-5f3c0a11-9", 1},
      {"5f3c0a110", 0},
      {"0000:1b:00.0", 0},
      {"00000000:1B:00.0", 0},
      {"1b:00.0", 0},
      {"1:1b:0.0", 1},
  };
  for (const auto& [typed, index] : names) {
    INFO(typed);
    CHECK(LooksLikeGpu(typed));
    const auto found = FindGpu(kTwo, typed);
    REQUIRE_OK(found);
    CHECK(*found == index);
  }
}

TEST_CASE("a name that several GPUs have is ambiguous") {
  for (const std::string typed : {"cuda", "GPU-5f3c0a11", "5f3c0a11"}) {
    INFO(typed);
    const Status status = FindGpu(kTwo, typed).status();
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.message().find("cuda:1") != std::string::npos);
    REQUIRE_OK(FindGpu(kOne, typed));
  }
}

TEST_CASE("a GPU that is not there is not found, and those that are get listed") {
  for (const std::string typed : {"cuda:2", "GPU-11111111", "1c:00.0", "0000:1b:00.1",
                                  "cuda:4294967296", "cuda:-1", "cuda:", "cuda:0x1"}) {
    INFO(typed);
    const Status status = FindGpu(kTwo, typed).status();
    CHECK(status.code() == Code::kNotFound);
    CHECK(status.reason() == reasons::kDeviceNotFound);
    CHECK(status.message().find("cuda:0 GPU-5f3c0a11") != std::string::npos);
  }
}

TEST_CASE("other words are no GPU's name") {
  for (const std::string typed :
       {"", "host", "cuda:", "cuda:x", "cuda:-1", "GPU-", "GPU-5f3c0a1", "1b:00", ".", ":", ":.",
        "a:b:c:d.e", "5f3c0a1", "zzzzzzzz", "5f3c0a11000011112222333344445555aa"}) {
    INFO(typed);
    CHECK_FALSE(LooksLikeGpu(typed));
  }
}

TEST_CASE("GPUs are numbered in the order of their PCI addresses, whatever the driver's order") {
  const auto api = shim::LoadCuda(testing::FakeCudaPath());
  REQUIRE_OK(api);
  const auto gpus = ListGpus(**api);
  REQUIRE_OK(gpus);
  REQUIRE(gpus->size() == 2);
  CHECK((*gpus)[0].pci == "0000:b1:00.0");
  CHECK((*gpus)[0].ordinal == 0);
  CHECK((*gpus)[0].driver_ordinal == 1);
  CHECK((*gpus)[1].pci == "0000:c1:00.0");
  CHECK((*gpus)[1].driver_ordinal == 0);
  CHECK((*gpus)[0].direct_peers == std::vector<std::string>{(*gpus)[1].uuid});
  CHECK((*gpus)[0].nvlink_peers.empty());
}

TEST_CASE("GPUs that reach each other with atomics are joined by NVLink") {
  const testing::ScopedEnvironment nvlink("FAKE_CUDA_NVLINK", "1");
  auto api = shim::LoadCuda(testing::FakeCudaPath());
  REQUIRE_OK(api);
  const auto joined = ListGpus(**api);
  REQUIRE_OK(joined);
  CHECK((*joined)[0].nvlink_peers == (*joined)[0].direct_peers);
  CHECK((*joined)[1].nvlink_peers == std::vector<std::string>{(*joined)[0].uuid});
  CHECK(Describe((*joined)[0], {}).nvlink_peers == (*joined)[0].nvlink_peers);
  // An older driver does not say.
  shim::CudaApi old = **api;
  old.DeviceGetP2PAttribute = nullptr;
  const auto unknown = ListGpus(old);
  REQUIRE_OK(unknown);
  CHECK((*unknown)[0].nvlink_peers.empty());
  // What does not reach the other is joined by nothing.
  const testing::ScopedEnvironment apart("FAKE_CUDA_NO_PEER", "1");
  const auto neither = ListGpus(**api);
  REQUIRE_OK(neither);
  CHECK((*neither)[0].nvlink_peers.empty());
}

TEST_CASE("what is known about a GPU goes into its capability") {
  GpuInfo gpu = kTwo.back();
  gpu.name = "NVIDIA H200";
  gpu.total_bytes = 141'000'000'000;
  gpu.compute_major = 9;
  gpu.gpu_direct_rdma = true;
  gpu.dma_buf = true;
  gpu.mig = true;
  gpu.numa_node = 1;
  gpu.direct_peers = {"GPU-x"};
  const MemoryCapability capability = Describe(gpu, Viability::No("GPU_LOST", "why", "what"));
  CHECK(capability.kind == "cuda");
  CHECK(capability.device == gpu.uuid);
  CHECK(capability.name == "NVIDIA H200");
  CHECK(capability.address == "0001:1b:00.0");
  CHECK(capability.ordinal == 1);
  CHECK(capability.total_bytes == gpu.total_bytes);
  CHECK_FALSE(capability.cpu_addressable);
  CHECK(capability.direct_peers == gpu.direct_peers);
  CHECK(capability.viability.reason == "GPU_LOST");
  CHECK(capability.attributes == std::map<std::string, std::string>{{"compute_capability", "9.0"},
                                                                    {"dma_buf", "yes"},
                                                                    {"gpu_direct_rdma", "yes"},
                                                                    {"mig", "yes"},
                                                                    {"numa_node", "1"}});
}

}  // namespace
}  // namespace onecopy::cuda
