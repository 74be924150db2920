// What transfers have made, and what the planner makes of it.
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/plan/nodes.h"

using onecopy::plan::MakePlan;
using onecopy::plan::Path;
using onecopy::plan::PathRate;
using onecopy::plan::Request;
using onecopy::plan::Wire;
using onecopy::testing::Measure;
using onecopy::testing::Move;
using onecopy::testing::RefusalOf;
namespace reasons = onecopy::reasons;

namespace {

constexpr std::chrono::system_clock::time_point kTime{std::chrono::seconds(1'769'866'620)};

Path Made(const Request& request) {
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  return *plan;
}

// GPUDirect was probed at 15 GB/s; staging is believed to make 35.
Request BeyondABridge() {
  Request request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  request.policy.path_glob = "rdma-*";
  const onecopy::plan::WireEnd host{"host", {}};
  const Wire wire{"verbs", {"cuda", request.source.device}, {"cuda", request.destination.device}};
  request.estimates.MeasuredWire(wire, 15e9, 0, kTime);
  for (const Wire& bounce :
       {Wire{"verbs", wire.source, host}, Wire{"verbs", host, wire.destination}}) {
    request.estimates.FailedWire(bounce, onecopy::Viability::No("NIC_UNREACHABLE", "", ""));
  }
  return request;
}

}  // namespace

TEST_CASE("a measured path does not lose for ever to one that is only believed to be faster") {
  Request request = BeyondABridge();
  const Path first = Made(request);
  CHECK(first.path == "rdma-staged");
  CHECK_FALSE(first.measured);
  CHECK(RefusalOf(first.refused, "rdma-direct").reason == reasons::kSlowerEstimated);
  Measure(request, "rdma-staged", "verbs", {.bytes_per_second = 12e9, .transfers = 2});
  CHECK(Made(request).path == "rdma-direct");
}

TEST_CASE("a staged path that was measured to be fast is believed to be, by one transfer") {
  Request request = Move("hopper-pair/cuda:1", "consumer/cuda:0");
  Measure(request, "tcp-staged", "tcp", {.bytes_per_second = 42e9, .transfers = 1, .time = kTime});
  const Path plan = Made(request);
  CHECK(plan.measured);
  CHECK(plan.estimated_bytes_per_second == 42e9);
  CHECK(plan.measured_transfers == 1);
  CHECK(plan.measure_time == kTime);
}

TEST_CASE("what a probe lets expect is not forgotten for what transfers made") {
  Request request = BeyondABridge();
  Measure(request, "rdma-direct", "verbs", {.bytes_per_second = 1e9, .transfers = 3});
  Measure(request, "rdma-staged", "verbs", {.bytes_per_second = 0.5e9, .transfers = 3});
  const Path plan = Made(request);
  CHECK(plan.path == "rdma-direct");
  CHECK(plan.estimated_bytes_per_second < 1.001e9);
  CHECK(plan.probed_bytes_per_second == 15e9);
}

TEST_CASE("one slow transfer is no proof, two are") {
  Request request = BeyondABridge();
  Measure(request, "rdma-staged", "verbs", {.bytes_per_second = 1e9, .transfers = 1});
  CHECK(Made(request).path == "rdma-staged");
  CHECK_FALSE(Made(request).measured);
  Measure(request, "rdma-staged", "verbs", {.bytes_per_second = 1e9, .transfers = 2});
  CHECK(Made(request).path == "rdma-direct");
}

TEST_CASE("a refusal says what was measured, by what and when, and what is only believed") {
  Request request = BeyondABridge();
  Measure(request, "rdma-staged", "verbs",
          {.bytes_per_second = 47e9, .transfers = 5, .time = kTime});
  Path plan = Made(request);
  CHECK(plan.path == "rdma-staged");
  CHECK(RefusalOf(plan.refused, "rdma-direct").reason == reasons::kSlowerMeasured);
  CHECK(RefusalOf(plan.refused, "rdma-direct").detail ==
        "15 GB/s (measured by a probe, 2026-01-31T13:37:00Z) against 47 GB/s (measured by 5 "
        "transfers, the last 2026-01-31T13:37:00Z) of rdma-staged for 1 GiB");

  request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  Measure(request, "rdma-direct", "verbs",
          {.bytes_per_second = 20e9, .transfers = 2, .time = kTime});
  plan = Made(request);
  const auto& refusal = RefusalOf(plan.refused, "rdma-direct");
  CHECK(refusal.reason == reasons::kSlowerEstimated);
  INFO(refusal.detail);
  CHECK(refusal.detail.find("20 GB/s (measured by 2 transfers, the last 2026-01-31") == 0);
  CHECK(refusal.detail.find("(estimated) of rdma-bounce") != std::string::npos);
}

TEST_CASE("short transfers count the latency of a rate that long ones made") {
  Request request = Move("laptop/host", "consumer/host");
  request.bytes = 4096;
  Measure(request, "tcp-direct", "tcp", 42e9);
  const double rate = Made(request).estimated_bytes_per_second;
  CHECK(rate < 4096 / 59e-6);
  CHECK(rate > 4096 / 61e-6);
}

TEST_CASE("what was measured to be slow is tried again by a transfer that can spare the time") {
  Request request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  request.policy.path_glob = "rdma-*";
  request.bytes = 64 << 20;
  // 45 believed. 64 MiB take 6.7 ms at 10 GB/s instead of 1.7.
  const auto again = [&request](double spare_seconds, double rate = 10e9) {
    Measure(
        request, "rdma-direct", "verbs",
        {.bytes_per_second = rate, .transfers = 2, .time = kTime, .spare_seconds = spare_seconds});
    const Path plan = Made(request);
    CHECK(plan.tried_again.empty() == (plan.path != "rdma-direct"));
    return plan;
  };
  CHECK(again(1).path == "rdma-bounce");  // nobody allows it
  request.may_try_again = true;
  CHECK(again(0.004).path == "rdma-bounce");
  const Path plan = again(0.006);
  CHECK(plan.path == "rdma-direct");
  CHECK_FALSE(plan.measured);  // it is believed once more, and not known
  CHECK(plan.estimated_bytes_per_second > 44e9);
  CHECK(plan.tried_again.find("10 GB/s (measured by 2 transfers, the last 2026") == 0);

  // However long ago that was, nobody waits for much longer than he would.
  request.bytes = uint64_t{16} << 30;  // 0.4 s
  CHECK(again(60, 23e9).path == "rdma-direct");
  CHECK(again(60, 15e9).path == "rdma-bounce");
}

TEST_CASE("what loses by more than what transfers made is not tried again") {
  Request request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  request.may_try_again = true;
  // Slower than believed, and believed to be slower than what is taken.
  Measure(request, "rdma-staged", "verbs",
          {.bytes_per_second = 1e9, .transfers = 2, .time = kTime, .spare_seconds = 60});
  CHECK(Made(request).path == "rdma-direct");
}
