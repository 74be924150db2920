// Who is planned to gather and scatter many ranges of a GPU.
#include "tests/support/catch.h"
#include "tests/unit/plan/nodes.h"

using onecopy::plan::MakePlan;
using onecopy::testing::Move;

namespace {

constexpr uint64_t kBytes = 64 << 20;

using Names = std::vector<std::string>;

// Who makes each step between two GPUs whose kernels take ranges below 256 KiB and 4 MiB.
Names Copiers(const char* source, const char* destination, const char* path, uint64_t from,
              uint64_t to, uint64_t host = 256 << 10, uint64_t gpu = 4 << 20) {
  auto request = Move(source, destination);
  auto near = *request.source.node;
  auto far = *request.destination.node;
  for (auto* node : {&near, &far}) {
    for (auto& memory : node->memories) {
      if (memory.device.empty()) continue;
      memory.kernel_below_bytes_host = host;
      memory.kernel_below_bytes_gpu = gpu;
    }
  }
  const bool one_node = request.source.node == request.destination.node;
  request.source.node = &near;
  request.destination.node = one_node ? &near : &far;
  request.bytes = kBytes;
  request.source_pieces = from;
  request.destination_pieces = to;
  request.policy.path_glob = path;
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  Names names;
  for (const auto& step : plan->steps) names.push_back(step.by);
  return names;
}

}  // namespace

TEST_CASE("short ranges are the kernel's, long ones the copy engines', one range never its") {
  const char* const a = "hopper-pair/cuda:0";
  const char* const b = "hopper-pair/cuda:1";
  CHECK(Copiers(a, b, "peer-direct", 1, 1) == Names{"copy-engine"});
  CHECK(Copiers(a, b, "peer-direct", 16, 16) == Names{"copy-engine"});
  CHECK(Copiers(a, b, "peer-direct", 17, 1) == Names{"gpu-kernel"});
  CHECK(Copiers(a, b, "peer-direct", 1, 17) == Names{"gpu-kernel"});
  CHECK(Copiers(a, a, "local", 17, 17) == Names{"gpu-kernel"});
  CHECK(Copiers(a, "hopper-pair/host", "local", 256, 1) == Names{"copy-engine"});
  CHECK(Copiers(a, "hopper-pair/host", "local", 257, 1) == Names{"gpu-kernel"});
  CHECK(Copiers("hopper-pair/host", a, "local", 257, 1) == Names{"gpu-kernel"});
  CHECK(Copiers("laptop/host", "laptop/host", "local", 257, 257) == Names{"cpu"});
}

TEST_CASE("each staged end is gathered or scattered by its own ranges") {
  const char* const a = "hopper-pair/cuda:0";
  const char* const b = "hopper-pair/cuda:1";
  CHECK(Copiers(a, b, "peer-bounce", 257, 256) == Names{"gpu-kernel", "copy-engine"});
  CHECK(Copiers(a, b, "peer-bounce", 256, 257) == Names{"copy-engine", "gpu-kernel"});
  CHECK(Copiers(a, "consumer/cuda:0", "tcp-staged", 257, 1) ==
        Names{"gpu-kernel", "cpu", "wire", "cpu", "copy-engine"});
  CHECK(Copiers(a, "consumer/cuda:0", "tcp-staged", 1, 257) ==
        Names{"copy-engine", "cpu", "wire", "cpu", "gpu-kernel"});
  CHECK(Copiers("laptop/host", a, "tcp-bounce", 257, 257) ==
        Names{"cpu", "wire", "cpu", "gpu-kernel"});
}

TEST_CASE("a GPU whose kernel is switched off, or always on, is planned so") {
  const char* const a = "hopper-pair/cuda:0";
  const char* const b = "hopper-pair/cuda:1";
  CHECK(Copiers(a, b, "peer-direct", 4096, 4096, 0, 0) == Names{"copy-engine"});
  CHECK(Copiers(a, b, "peer-direct", 2, 1, UINT64_MAX, UINT64_MAX) == Names{"gpu-kernel"});
}
