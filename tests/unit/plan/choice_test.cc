// Which of the paths that work is taken.
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/plan/nodes.h"

namespace plan = onecopy::plan;
using onecopy::plan::MakePlan;
using onecopy::testing::Measure;
using onecopy::testing::Move;
using onecopy::testing::RefusalOf;
namespace reasons = onecopy::reasons;

TEST_CASE("the path with the fewest copies that works is taken before anything is measured") {
  const auto [source, destination, path] = GENERATE(table<const char*, const char*, const char*>({
      {"laptop/host", "laptop/host", "local"},
      {"hopper-pair/host", "hopper-pair/cuda:1", "local"},
      {"hopper-pair/cuda:0", "hopper-pair/cuda:0", "local"},
      {"hopper-pair/cuda:0", "hopper-pair/cuda:1", "peer-direct"},
      {"consumer/cuda:0", "consumer/cuda:1", "peer-bounce"},
      {"laptop/host", "consumer/host", "tcp-direct"},
      {"laptop/host", "consumer/cuda:0", "tcp-bounce"},
      {"hopper-pair/cuda:1", "laptop/host", "tcp-bounce"},
      {"hopper-pair/cuda:1", "consumer/cuda:0", "tcp-staged"},
      {"rail-a/cuda:0", "rail-b/cuda:7", "rdma-direct"},
      {"rail-a/host", "rail-b/cuda:7", "rdma-direct"},
      {"rail-a/host", "rail-b/host", "rdma-direct"},
      {"no-dmabuf/cuda:0", "roce/cuda:0", "rdma-bounce"},
      {"no-dmabuf/cuda:0", "half/cuda:1", "rdma-staged"},
      {"half/cuda:0", "roce/cuda:0", "rdma-direct"},
      {"half/cuda:1", "roce/cuda:0", "rdma-bounce"},
      {"half/cuda:1", "roce/host", "rdma-bounce"},
      {"no-dmabuf/host", "roce/host", "rdma-direct"},
      {"rail-a/cuda:0", "roce/cuda:0", "tcp-staged"},
      {"ucx-113/cuda:0", "ucx-122/cuda:0", "tcp-staged"},
      {"old-driver/host", "lost-gpu/cuda:0", "tcp-bounce"},
      {"slow-rdma/host", "roce/host", "rdma-direct"},
  }));
  INFO(source << " to " << destination);
  const auto plan = MakePlan(Move(source, destination));
  REQUIRE_OK(plan);
  CHECK(plan->path == path);
  CHECK_FALSE(plan->measured);
}

TEST_CASE("short pieces are gathered into slots rather than read one by one, long ones are not") {
  const auto path = [](const char* source, const char* destination, uint64_t from, uint64_t to) {
    auto request = Move(source, destination);
    request.bytes = 64 << 20;
    request.source_pieces = from;
    request.destination_pieces = to;
    const auto plan = MakePlan(request);
    REQUIRE_OK(plan);
    return plan->path;
  };
  CHECK(path("laptop/host", "consumer/host", 1000, 1000) == "tcp-direct");
  CHECK(path("laptop/host", "consumer/host", 16 << 20, 1) == "tcp-bounce");
  CHECK(path("laptop/host", "consumer/host", 16 << 20, 16 << 20) == "tcp-staged");
  CHECK(path("rail-a/cuda:0", "rail-b/cuda:7", 1000, 1000) == "rdma-direct");
  CHECK(path("rail-a/cuda:0", "rail-b/cuda:7", 16 << 20, 1) == "rdma-bounce");
  CHECK(path("rail-a/host", "rail-b/host", 16 << 20, 16 << 20) == "rdma-staged");
  // Inside a node the kernel takes them as they are.
  CHECK(path("hopper-pair/cuda:0", "hopper-pair/cuda:1", 16 << 20, 16 << 20) == "peer-direct");
}

TEST_CASE("an emulated device is believed to be slower than sockets") {
  const auto plan = MakePlan(Move("vm-a/host", "vm-b/host"));
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-direct");
  const auto& refusal = RefusalOf(plan->refused, "rdma-direct");
  CHECK(refusal.reason == reasons::kSlowerEstimated);
  CHECK(refusal.detail.find(" MB/s (estimated) against ") != std::string::npos);
}

TEST_CASE("an emulated device that was measured to be fast is used") {
  auto request = Move("vm-a/host", "vm-b/host");
  Measure(request, "rdma-direct", "verbs", 20e9);
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-direct");
  CHECK(plan->emulated);
}

TEST_CASE("what was measured decides, and the refusal has both figures") {
  auto request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  Measure(request, "rdma-direct", "verbs", 15e9);
  Measure(request, "rdma-staged", "verbs", 47e9);
  Measure(request, "rdma-bounce", "verbs", 16e9);
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-staged");
  CHECK(plan->measured);
  CHECK(plan->estimated_bytes_per_second == 47e9);
  const auto& refusal = RefusalOf(plan->refused, "rdma-direct");
  CHECK(refusal.reason == reasons::kSlowerMeasured);
  CHECK(
      refusal.detail ==
      "15 GB/s (measured by 2 transfers) against 47 GB/s (measured by 2 transfers) of rdma-staged "
      "for 1 GiB");
  CHECK(RefusalOf(plan->refused, "rdma-bounce").reason == reasons::kSlowerMeasured);
}

TEST_CASE("against a default a measurement counts as an estimate") {
  auto request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  Measure(request, "rdma-direct", "verbs", 1e9);
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-bounce");
  CHECK(RefusalOf(plan->refused, "rdma-direct").reason == reasons::kSlowerEstimated);
}

TEST_CASE("within ten percent the path with fewer copies is taken") {
  const auto [direct, path] =
      GENERATE(table<double, const char*>({{9.1e9, "rdma-direct"}, {8.9e9, "rdma-bounce"}}));
  auto request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  Measure(request, "rdma-direct", "verbs", direct);
  Measure(request, "rdma-bounce", "verbs", 10e9);
  Measure(request, "rdma-staged", "verbs", 9.5e9);
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == path);
}

TEST_CASE("with equal copies and rates the higher rung is taken") {
  auto request = Move("rail-a/host", "rail-b/host");
  request.policy.path_glob = "*";
  request.excluded = {{.refusal = {"rdma-direct", "KEYS_EXHAUSTED", "", ""}, .link = "verbs"},
                      {.refusal = {"rdma-bounce", "KEYS_EXHAUSTED", "", ""},
                       .link = "verbs",
                       .source_staged = true},
                      {.refusal = {"rdma-bounce", "KEYS_EXHAUSTED", "", ""},
                       .link = "verbs",
                       .destination_staged = true}};
  Measure(request, "rdma-staged", "verbs", 10e9);
  Measure(request, "tcp-direct", "tcp", 10e9);
  auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  // Staging host memory only adds copies, so it does not take part.
  CHECK(plan->path == "tcp-direct");

  request = Move("no-dmabuf/cuda:0", "half/cuda:1");
  Measure(request, "rdma-staged", "verbs", 10e9);
  Measure(request, "tcp-staged", "tcp", 10e9);
  plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-staged");
}

TEST_CASE("the size decides between a short latency and a high rate") {
  const auto [bytes, path] = GENERATE(table<uint64_t, const char*>(
      {{4096, "rdma-direct"}, {uint64_t{1} << 32, "rdma-staged"}, {0, "rdma-direct"}}));
  auto request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  request.bytes = bytes;
  Measure(request, "rdma-direct", "verbs", 15e9);
  Measure(request, "rdma-bounce", "verbs", 16e9);
  Measure(request, "rdma-staged", "verbs", 47e9);
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == path);
}

TEST_CASE("nothing at all takes the path with the shortest latency") {
  auto request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  request.bytes = 0;
  const plan::WireEnd host{"host", {}};
  const plan::WireEnd from{"cuda", request.source.device};
  const plan::WireEnd to{"cuda", request.destination.device};
  for (const plan::Wire& wire : {plan::Wire{"verbs", from, to}, plan::Wire{"verbs", from, host},
                                 plan::Wire{"verbs", host, to}}) {
    request.estimates.MeasuredWire(wire, 50e9, 1);
  }
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-staged");
}

TEST_CASE("an estimate is no higher than what the devices carry") {
  const auto rate = [](const char* source, const char* destination, const char* path) {
    auto request = Move(source, destination);
    request.bytes = uint64_t{1} << 40;
    request.policy.path_glob = path;
    const auto plan = MakePlan(request);
    REQUIRE_OK(plan);
    return plan->estimated_bytes_per_second;
  };
  const auto is_near = [](double value, double expected) {
    return value > 0.99 * expected && value <= expected;
  };
  CHECK(is_near(rate("hopper-pair/host", "roce/host", "tcp-direct"), 3.125e9));
  CHECK(is_near(rate("roce/host", "no-dmabuf/host", "rdma-direct"), 12.5e9));
  // Sockets whose device does not tell its speed share the wire with RDMA.
  CHECK(is_near(rate("slow-rdma/host", "roce/host", "tcp-direct"), 1.25e9));
}

TEST_CASE("sockets are limited by their own devices, and never by software ones") {
  auto roce = onecopy::testing::Node("roce");
  auto request = Move("roce/host", "no-dmabuf/host");
  request.source.node = &roce;
  request.bytes = uint64_t{1} << 40;
  request.policy.path_glob = "tcp-direct";
  SECTION("their own tell their speed") {
    roce.links.front().nics[0].bytes_per_second = 1'250'000'000;
    const auto plan = MakePlan(request);
    REQUIRE_OK(plan);
    CHECK(plan->estimated_bytes_per_second > 1.2e9);
    CHECK(plan->estimated_bytes_per_second <= 1.25e9);
  }
  SECTION("the only other device is emulated") {
    roce.links.front().nics.clear();
    for (auto& nic : roce.links.back().nics) {
      nic.emulated = true;
      nic.bytes_per_second = 1'250'000'000;
    }
    const auto plan = MakePlan(request);
    REQUIRE_OK(plan);
    CHECK(plan->estimated_bytes_per_second > 7e9);
  }
}

TEST_CASE("the speed of one side is the limit where the other does not tell its own") {
  auto unknown = onecopy::testing::Node("no-dmabuf");
  unknown.links.back().nics[0].bytes_per_second = 0;
  auto request = Move("slow-rdma/host", "no-dmabuf/host");
  request.destination.node = &unknown;
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-direct");
  CHECK(plan->estimated_bytes_per_second > 1.2e9);
  CHECK(plan->estimated_bytes_per_second <= 1.25e9);
}

TEST_CASE("a wire that never leaves the machine is not limited by its devices") {
  const auto west = onecopy::testing::Twin(onecopy::testing::Node("hopper-pair"), "west");
  auto request = Move("hopper-pair/host", "hopper-pair/host");
  request.destination.node = &west;
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-direct");
  CHECK(plan->estimated_bytes_per_second > 3.2e9);
}

TEST_CASE("host memory is not staged however slow its direct path was measured") {
  auto request = Move("laptop/host", "consumer/host");
  Measure(request, "tcp-direct", "tcp", 1e6);
  auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-direct");

  request = Move("laptop/host", "laptop/host");
  Measure(request, "local", "", 1e6);
  plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "local");
}

TEST_CASE("that host memory was not staged is no matter of speed") {
  auto request = Move("rail-a/host", "rail-b/host");
  Measure(request, "rdma-direct", "verbs", 1e9);
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-direct");
  CHECK(RefusalOf(plan->refused, "rdma-direct").reason == reasons::kSlowerEstimated);
  CHECK(RefusalOf(plan->refused, "rdma-bounce").reason == reasons::kNotRequested);
  CHECK(RefusalOf(plan->refused, "rdma-staged").reason == reasons::kNotRequested);
}

TEST_CASE("host memory is staged when nothing else has worked") {
  auto request = Move("consumer/host", "consumer/cuda:0");
  request.excluded = {
      {.refusal = {"local", "HOST_NOT_PINNABLE", "cuMemHostRegister failed", "raise memlock"}}};
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "peer-bounce");
  CHECK(RefusalOf(plan->refused, "local") == request.excluded[0].refusal);
}

TEST_CASE("what sounds better and was not taken is refused with its reason, and nothing else") {
  const auto plan = MakePlan(Move("hopper-pair/cuda:0", "consumer/cuda:1"));
  REQUIRE_OK(plan);
  std::vector<std::string> refused;
  for (const auto& refusal : plan->refused) refused.push_back(refusal.path + " " + refusal.reason);
  CHECK(refused ==
        std::vector<std::string>{"rdma-direct NO_RDMA_DEVICE", "peer-direct OTHER_NODE",
                                 "local OTHER_NODE", "storage-direct NOT_APPLICABLE",
                                 "rdma-bounce NO_RDMA_DEVICE", "peer-bounce OTHER_NODE",
                                 "storage-bounce NOT_APPLICABLE", "rdma-staged NO_RDMA_DEVICE",
                                 "tcp-direct NOT_APPLICABLE", "tcp-bounce NOT_APPLICABLE"});
}

TEST_CASE(
    "a link's own sockets carry GPU memory when asked for, or when they are faster after all") {
  auto east = onecopy::testing::Node("ucx-122");
  onecopy::NicCapability sockets;
  sockets.name = "tcp";
  sockets.memories = {{"host", {}, {}}, {"cuda", {}, {}}};
  for (auto& link : east.links) {
    if (link.name != "ucx") continue;
    link.nics = {sockets};
    link.rdma = false;
  }
  auto west = onecopy::testing::Twin(east, "west");
  west.host = "host-west";
  auto request = Move("ucx-122/cuda:0", "ucx-122/cuda:0");
  request.source.node = &east;
  request.destination.node = &west;
  auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-staged");
  CHECK(plan->link == "tcp");
  request.policy.link = "ucx";
  plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-staged");
  CHECK(plan->link == "ucx");
  CHECK(plan->copies() == 5);
  CHECK_FALSE(plan->source_staged);
  CHECK(plan->steps.front().by == "copy-engine");
  CHECK(plan->steps.front().to == "ucx");
  CHECK(plan->steps.back().by == "copy-engine");
  CHECK(plan->estimated_bytes_per_second <= 1e9);
  request.policy = {};
  const std::string gpu = east.memories[1].device;
  request.estimates.MeasuredWire({"ucx", {"cuda", gpu}, {"cuda", gpu}}, 20e9, 0);
  plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->link == "ucx");
  CHECK(plan->measured);
}

TEST_CASE("of several links the faster one is taken") {
  auto east = onecopy::testing::Node("roce");
  auto west = onecopy::testing::Twin(east, "west");
  west.host = "host-west";
  for (auto* node : {&east, &west}) {
    onecopy::LinkCapability ucx = *node->FindLink("verbs");
    ucx.name = "ucx";
    node->links.push_back(ucx);
  }
  auto request = Move("roce/cuda:0", "roce/cuda:0");
  request.source.node = &east;
  request.destination.node = &west;
  Measure(request, "rdma-direct", "verbs", 20e9);
  Measure(request, "rdma-direct", "ucx", 24e9);
  auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->link == "ucx");
  request.policy.link = "verbs";
  plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->link == "verbs");
}

TEST_CASE("of several pairs of devices the faster one counts, and hardware before software") {
  auto east = onecopy::testing::Node("roce");
  auto west = onecopy::testing::Twin(east, "west");
  west.host = "host-west";
  for (auto* node : {&east, &west}) {
    auto& nics = node->links.back().nics;
    auto slow = nics[0];
    slow.name = "mlx5_9";
    slow.bytes_per_second = 5'000'000'000;
    auto soft = nics[0];
    soft.name = "rxe0";
    soft.emulated = true;
    soft.bytes_per_second = 100'000'000'000;
    nics = {soft, slow, nics[0]};
  }
  auto request = Move("roce/cuda:0", "roce/cuda:0");
  request.source.node = &east;
  request.destination.node = &west;
  request.bytes = uint64_t{1} << 40;
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-direct");
  CHECK_FALSE(plan->emulated);
  CHECK(plan->estimated_bytes_per_second > 24e9);
  CHECK(plan->estimated_bytes_per_second < 25.1e9);
}
