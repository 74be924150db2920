// What transfers made, as operators see it: in plans, in node show, and in the next receipts.
#include <algorithm>

#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/text.h"

namespace rates_test {
namespace {

using namespace onecopy::testing;

std::string Words(const Node& node, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--run-dir", node.run_dir()});
  const CommandResult result = RunCommand("onecopy", arguments);
  INFO(result.err);
  REQUIRE(result.exit_status == 0);
  return result.out;
}

}  // namespace

TEST_CASE("a path's estimate is what transfers made by it, and says so") {
  const Pair pair;
  pair.east.Do({"buffer", "create", "a", "--size", "32MiB", "--memory", "host"});
  pair.west.Do({"buffer", "create", "b", "--size", "32MiB", "--memory", "host"});
  const std::vector<std::string> explain = {"explain", "east:a", "west:b", "--path", "tcp-staged"};
  const Json before = pair.west.Do(explain);
  CHECK(before.at("measured") == false);
  CHECK(before.at("measure_time").is_null());
  CHECK(Has(Words(pair.west, explain), "from a table"));

  double slowest = 1e18;
  double fastest = 0;
  for (int i = 0; i < 2; ++i) {
    const Json moved = pair.west.Do({"cp", "east:a", "west:b", "--path", "tcp-staged"});
    const double rate = moved.at("bytes_per_second");
    slowest = std::min(slowest, rate);
    fastest = std::max(fastest, rate);
  }
  const Json after = pair.west.Do(explain);
  CHECK(after.at("measured") == true);
  CHECK(after.at("measured_transfers") == 2);
  CHECK(after.at("measure_time").is_string());
  CHECK(after.at("estimated_bytes_per_second") >= slowest * 0.999);
  CHECK(after.at("estimated_bytes_per_second") <= fastest * 1.001);
  CHECK(Has(Words(pair.west, explain), ", measured by 2 transfers, the last 2"));

  const Json rates = pair.west.Do({"node", "show", "east"}).at("path_rates");
  REQUIRE(rates.size() == 1);
  CHECK(rates[0].at("path") == "tcp-staged");
  CHECK(rates[0].at("source_memory") == "host");
  CHECK(rates[0].at("source_staged") == true);
  CHECK(rates[0].at("least_bytes") == 16 << 20);
  CHECK(rates[0].at("transfers") == 2);
  const std::string shown = Words(pair.west, {"node", "show", "east"});
  INFO(shown);
  CHECK(Has(shown, "transfers from it, the median of the last ones"));
  CHECK(Has(shown, "tcp-staged"));
}
}  // namespace rates_test
