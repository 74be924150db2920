#include "daemon/plan/estimates.h"

#include <cmath>

#include "tests/support/catch.h"

using onecopy::plan::Estimate;
using onecopy::plan::Estimates;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

bool IsNear(double value, double expected) { return std::abs(value / expected - 1) < 0.001; }

double Default(const std::string& path, const std::string& from, const std::string& to,
               uint64_t bytes = kGiB) {
  return Estimates().Find(path, "", from, to).RateFor(bytes);
}

}  // namespace

TEST_CASE("a rate counts the latency, which short transfers feel") {
  const Estimate estimate{.bytes_per_second = 1e9, .latency_seconds = 1e-3, .measured = false};
  CHECK(IsNear(estimate.RateFor(1'000'000), 5e8));
  CHECK(IsNear(estimate.RateFor(1'000'000'000'000), 1e9));
  CHECK(IsNear(estimate.RateFor(1), 1e3));
}

TEST_CASE("nothing to move, or no speed, has no rate") {
  CHECK(Estimate{.bytes_per_second = 1e9, .latency_seconds = 0, .measured = false}.RateFor(0) == 0);
  CHECK(Estimate{}.RateFor(1) == 0);
  CHECK(Estimates().Find("no-path", "", "host", "host").RateFor(kGiB) == 0);
}

TEST_CASE("a measurement replaces the default of its own path, link and kinds only") {
  Estimates estimates;
  const double before = estimates.Find("tcp-staged", "tcp", "cuda", "cuda").bytes_per_second;
  estimates.Measured("tcp-staged", "tcp", "cuda", "cuda", 123e9, 7e-6);
  const Estimate found = estimates.Find("tcp-staged", "tcp", "cuda", "cuda");
  CHECK(found.measured);
  CHECK(found.bytes_per_second == 123e9);
  CHECK(found.latency_seconds == 7e-6);
  CHECK_FALSE(estimates.Find("tcp-staged", "tcp", "host", "cuda").measured);
  CHECK_FALSE(estimates.Find("tcp-staged", "ucx", "cuda", "cuda").measured);
  CHECK(estimates.Find("tcp-staged", "ucx", "cuda", "cuda").bytes_per_second == before);

  estimates.Measured("tcp-staged", "tcp", "cuda", "cuda", 5e9, 1e-6);
  CHECK(estimates.Find("tcp-staged", "tcp", "cuda", "cuda").bytes_per_second == 5e9);
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
