// The programs of client/examples do what they say.
#include <cstring>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/text.h"

namespace examples_test {
namespace {

using namespace onecopy::testing;

CommandResult RunExample(const std::string& run_dir, const std::string& name,
                         const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"ONECOPY_RUN_DIR=" + run_dir,
                                    (ProgramFolder() / "examples" / name).string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return RunCommand("/usr/bin/env", words);
}

}  // namespace

TEST_CASE("send moves its memory into a buffer of the other node, and prints the receipt") {
  Pair pair;
  onecopy::Client west = pair.west.Connect();
  const onecopy::HostBuffer there = Must(west.CreateHostBuffer("there", 100'003));
  const CommandResult sent = RunExample(pair.east.run_dir(), "send", {"west", "there", "100003"});
  INFO(sent.err);
  REQUIRE(sent.exit_status == 0);
  CHECK(Has(sent.out, "tcp-direct, 3 copies"));
  CHECK(Has(sent.out, "equal at both ends"));
  uint64_t right = 0;
  for (uint64_t i = 0; i < there.bytes(); ++i) {
    if (there.data()[i] == static_cast<std::byte>(i % 251)) ++right;
  }
  CHECK(right == there.bytes());
}

TEST_CASE("send says what is wrong") {
  Pair pair;
  const CommandResult missing = RunExample(pair.east.run_dir(), "send", {"west", "nowhere", "10"});
  CHECK(missing.exit_status == 1);
  CHECK(Has(missing.err, "nowhere"));
  CHECK(RunExample(pair.east.run_dir(), "send", {"west"}).exit_status == 2);
  const CommandResult nobody =
      RunExample(pair.east.folder() / "no-daemon", "send", {"west", "b", "10"});
  CHECK(nobody.exit_status == 1);
  CHECK(Has(nobody.err, "DAEMON_UNREACHABLE"));
}

TEST_CASE("columns gathers a column of its table into a plain array") {
  constexpr uint64_t kRows = 10'000;
  Pair pair;
  onecopy::Client west = pair.west.Connect();
  const onecopy::HostBuffer there = Must(west.CreateHostBuffer("floats", 4 * kRows));
  const CommandResult moved =
      RunExample(pair.east.run_dir(), "columns", {"west", "floats", "10000"});
  INFO(moved.err);
  REQUIRE(moved.exit_status == 0);
  uint64_t right = 0;
  for (uint64_t i = 0; i < kRows; ++i) {
    float value = 0;
    std::memcpy(&value, there.data() + 4 * i, sizeof value);
    if (value == static_cast<float>(i) / 2) ++right;
  }
  CHECK(right == kRows);
}

TEST_CASE("explain names the path, and every other with its reason") {
  Pair pair;
  pair.east.Do({"buffer", "create", "a", "--size", "64KiB", "--memory", "host"});
  pair.west.Do({"buffer", "create", "b", "--size", "64KiB", "--memory", "host"});
  const CommandResult plan = RunExample(pair.east.run_dir(), "explain", {"a", "west", "b"});
  CHECK(plan.exit_status == 0);
  CHECK(plan.out.starts_with("tcp-direct, 3 copies\n"));
  CHECK(Has(plan.out, "not rdma-direct: "));
  const CommandResult strict = RunExample(pair.east.run_dir(), "explain", {"a", "west", "b", "1"});
  CHECK(strict.exit_status == 1);
  CHECK(Has(strict.err, "POLICY_UNMET"));
  CHECK(Has(strict.out, "not tcp-direct: "));
}
}  // namespace examples_test
