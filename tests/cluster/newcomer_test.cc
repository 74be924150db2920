// What somebody types who does not know the program yet, and what they are told.
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/text.h"

namespace newcomer_test {
namespace {

using namespace onecopy::testing;

// The remedy of a command that fails.
std::string Remedy(const Node& node, const std::vector<std::string>& arguments) {
  const CommandResult run = node.Run(arguments);
  INFO(run.out + run.err);
  REQUIRE(run.exit_status != 0);
  return run.json.at("error").at("remedy");
}

}  // namespace

TEST_CASE("a mistyped buffer is answered with the one that was meant, here and on another node") {
  Pair pair;
  pair.east.Do({"buffer", "create", "weights", "--size", "4096"});
  pair.west.Do({"buffer", "create", "gradients", "--size", "4096"});
  CHECK(Has(Remedy(pair.east, {"cp", "weigts", "west:gradients"}), "did you mean weights? "));
  CHECK(
      Has(Remedy(pair.east, {"cp", "weights", "west:gradeints"}), "did you mean west:gradients? "));
  CHECK(Has(Remedy(pair.east, {"explain", "weigts", "west:gradients"}), "did you mean weights? "));
  CHECK_FALSE(Has(Remedy(pair.east, {"cp", "weights", "west:other"}), "did you mean"));
  CHECK(Has(Remedy(pair.east, {"cp", "weights", "west:gradients", "--path", "rdma"}),
            "did you mean \"rdma-*\"? "));
}

TEST_CASE("a destination that does not exist is answered with the option that makes it") {
  Pair pair;
  pair.east.Do({"buffer", "create", "weights", "--size", "4096"});
  const std::string file = pair.east.folder() / "file";
  WriteFile(file, "bytes");
  CHECK(Has(Remedy(pair.east, {"cp", "weights", "west:new"}), "--create"));
  CHECK(Has(Remedy(pair.east, {"cp", file, "west:new"}), "--create"));
  CHECK(Has(Remedy(pair.east, {"cp", file, "new"}), "--create"));
  // Not where the source is missing, or a part of the destination is named.
  CHECK_FALSE(Has(Remedy(pair.east, {"cp", "absent", "west:new"}), "--create"));
  CHECK_FALSE(Has(Remedy(pair.east, {"cp", "weights", "west:new@5"}), "--create"));
  pair.east.Do({"cp", "weights", "west:new", "--create"});
}

TEST_CASE("a file that ends before the buffer is told, and what of the buffer stays as it was") {
  Pair pair;
  pair.east.Do({"buffer", "create", "weights", "--size", "4096"});
  pair.west.Do({"buffer", "create", "weights", "--size", "4096"});
  const std::string file = pair.east.folder() / "file";
  WriteFile(file, std::string(1024, 'x'));
  const auto told = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {"--run-dir", pair.east.run_dir()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const CommandResult run = RunCommand("onecopy", words);
    CHECK(run.exit_status == 0);
    return run.err;
  };
  CHECK(Has(told({"cp", file, "weights"}), "the last 3 KiB of the buffer are unchanged"));
  CHECK(Has(told({"cp", file, "west:weights@1024"}), "the last 2 KiB of the buffer are unchanged"));
  // All of it, what was asked for, and for scripts.
  CHECK_FALSE(Has(told({"cp", file, "weights@3072"}), "unchanged"));
  CHECK_FALSE(Has(told({"cp", file, "weights@0+1024"}), "unchanged"));
  CHECK_FALSE(Has(told({"cp", file, "weights", "--quiet"}), "unchanged"));
  CHECK_FALSE(Has(told({"cp", "weights", "west:weights"}), "unchanged"));
}

}  // namespace newcomer_test
