#include "daemon/plan/estimates.h"

#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

using onecopy::plan::Estimate;
using onecopy::plan::Estimates;
using onecopy::plan::PathKey;
using onecopy::plan::PathRate;
using onecopy::plan::PathRates;
using onecopy::plan::SizeClassOf;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

bool IsNear(double value, double expected) { return std::abs(value / expected - 1) < 0.001; }

double Default(const std::string& path, const std::string& from, const std::string& to,
               uint64_t bytes = kGiB) {
  return Estimates::ByTable(path, from, to).RateFor(bytes);
}

}  // namespace

TEST_CASE("a rate counts the latency, which short transfers feel") {
  const Estimate estimate{.bytes_per_second = 1e9, .latency_seconds = 1e-3};
  CHECK(IsNear(estimate.RateFor(1'000'000), 5e8));
  CHECK(IsNear(estimate.RateFor(1'000'000'000'000), 1e9));
  CHECK(IsNear(estimate.RateFor(1), 1e3));
}

TEST_CASE("nothing to move, or no speed, has no rate") {
  CHECK(Estimate{.bytes_per_second = 1e9}.RateFor(0) == 0);
  CHECK(Estimate{}.RateFor(1) == 0);
  CHECK(Estimates::ByTable("no-path", "host", "host").RateFor(kGiB) == 0);
}

TEST_CASE("what transfers made counts for their own path, link, memories and way of staging only") {
  const PathKey way{"tcp-staged", "tcp", {"cuda", "GPU-1"}, {"cuda", "GPU-2"}, true, true};
  Estimates estimates;
  PathRates rates;
  rates[0] = {.bytes_per_second = 42e9, .transfers = 3};
  estimates.MeasuredPath(way, rates);
  REQUIRE(estimates.FindPath(way, 64 << 10) != nullptr);
  CHECK(estimates.FindPath(way, 64 << 10)->bytes_per_second == 42e9);
  const auto other = [&](const std::function<void(PathKey&)>& change) {
    PathKey changed = way;
    change(changed);
    return estimates.FindPath(changed, kGiB);
  };
  CHECK(other([](PathKey& w) { w.path = "tcp-bounce"; }) == nullptr);
  CHECK(other([](PathKey& w) { w.link = "ucx"; }) == nullptr);
  CHECK(other([](PathKey& w) { w.source.device = "GPU-3"; }) == nullptr);
  CHECK(other([](PathKey& w) { w.destination = {"host", ""}; }) == nullptr);
  CHECK(other([](PathKey& w) { w.source_staged = false; }) == nullptr);
}

TEST_CASE("transfers of about one size compare; else the next smaller, else the next larger") {
  const PathKey way{"local", "", {"host", ""}, {"host", ""}};
  const auto rate = [&way](std::vector<std::pair<uint64_t, double>> known, uint64_t bytes) {
    PathRates rates;
    for (const auto& [size, made] : known) {
      rates[SizeClassOf(size)] = {.bytes_per_second = made, .transfers = 1};
    }
    Estimates estimates;
    estimates.MeasuredPath(way, rates);
    const PathRate* found = estimates.FindPath(way, bytes);
    return found == nullptr ? 0 : found->bytes_per_second;
  };
  constexpr uint64_t kMiB = 1 << 20;
  CHECK(rate({}, kGiB) == 0);
  CHECK(rate({{16 * kMiB, 1}, {100 * kMiB, 2}, {kGiB, 3}}, 63 * kMiB) == 1);
  CHECK(rate({{16 * kMiB, 1}, {100 * kMiB, 2}, {kGiB, 3}}, 64 * kMiB) == 2);
  CHECK(rate({{16 * kMiB, 1}, {100 * kMiB, 2}, {kGiB, 3}}, 512 * kMiB) == 2);
  CHECK(rate({{16 * kMiB, 1}, {100 * kMiB, 2}, {kGiB, 3}}, uint64_t{1} << 40) == 3);
  CHECK(rate({{100 * kMiB, 2}, {kGiB, 3}}, 1) == 2);
}

TEST_CASE("by default fewer copies are faster, at every size") {
  const uint64_t bytes = GENERATE(uint64_t{1}, uint64_t{4096}, uint64_t{1} << 20, kGiB);
  const auto [from, to] = GENERATE(table<const char*, const char*>(
      {{"host", "host"}, {"host", "cuda"}, {"cuda", "host"}, {"cuda", "cuda"}}));
  INFO(from << " to " << to << ", " << bytes << " bytes");
  CHECK(Default("rdma-direct", from, to, bytes) > Default("rdma-bounce", from, to, bytes));
  CHECK(Default("rdma-bounce", from, to, bytes) > Default("rdma-staged", from, to, bytes));
  CHECK(Default("rdma-staged", from, to, bytes) > Default("tcp-direct", from, to, bytes));
  CHECK(Default("tcp-direct", from, to, bytes) > Default("tcp-bounce", from, to, bytes));
  CHECK(Default("tcp-bounce", from, to, bytes) > Default("tcp-staged", from, to, bytes));
  CHECK(Default("local", from, to, bytes) > Default("peer-bounce", from, to, bytes));
}

TEST_CASE("by default two GPUs that reach each other need no host memory") {
  CHECK(Default("peer-direct", "cuda", "cuda") > Default("peer-bounce", "cuda", "cuda"));
  CHECK(Default("peer-direct", "cuda", "cuda", 1) > Default("peer-bounce", "cuda", "cuda", 1));
}
