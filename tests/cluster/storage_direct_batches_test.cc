// Many ranges between a file and a GPU's memory, by batches of the library where it has them and
// counts them: what ran is told, single entries fail by themselves, and without batches all goes
// on.
#include <functional>

#include "tests/cluster/with_drive.h"

namespace storage_direct_batches_test {
namespace {

using namespace onecopy::testing;

constexpr uint64_t kSlot = 32 * 1024;
constexpr uint64_t kSlots = kDriveBytes / kSlot;

struct Range {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t bytes = 0;
};

// One in each slot of the file, in no order: `bytes` of the i-th, beginning `skew` inside its slot.
std::vector<Range> Scattered(const std::function<uint64_t(uint64_t)>& bytes, uint64_t skew = 0) {
  std::vector<Range> ranges;
  for (uint64_t i = 0; i < kSlots; ++i) {
    ranges.push_back({(i * 7919) % kSlots * kSlot + skew, i * kSlot + skew, bytes(i)});
  }
  return ranges;
}

uint64_t Blocks(uint64_t i) { return 4096 * (1 + i % 8); }

struct WithRanges : WithDrive {
  using WithDrive::WithDrive;

  // `cp` of those ranges: out of the file, or into it.
  std::vector<std::string> Command(const std::vector<Range>& ranges, bool in = true) {
    std::string list;
    const auto end = [](uint64_t offset, uint64_t bytes) {
      return R"({"offset": )" + std::to_string(offset) + R"(, "bytes": )" + std::to_string(bytes) +
             "}";
    };
    for (const Range& range : ranges) {
      list += R"({"source": )" + end(in ? range.from : range.to, range.bytes) +
              R"(, "destination": )" + end(in ? range.to : range.from, range.bytes) + "}\n";
    }
    WriteFile(folder / "list", list);
    const std::string file = folder / "in";
    return {"cp", in ? file : "g", in ? "g" : file, "--ranges", folder / "list"};
  }
  Json Copy(const std::vector<Range>& ranges, bool in = true) {
    return node.Do(Command(ranges, in));
  }
  // What the GPU has to have then.
  std::string Expected(const std::vector<Range>& ranges, std::string before) const {
    for (const Range& range : ranges) {
      before.replace(range.to, range.bytes, payload, range.from, range.bytes);
    }
    return before;
  }
};

uint64_t BytesOf(const std::vector<Range>& ranges) {
  uint64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.bytes;
  return bytes;
}

std::string Evidence(const Json& receipt) { return receipt.at("evidence").at("storage"); }
bool ByBatches(const Json& receipt) {
  return Evidence(receipt).find(" batches") != std::string::npos;
}

}  // namespace

TEST_CASE("many ranges are one copy each, by batches, both ways") {
  WithRanges with;
  CHECK(with.Store().at("attributes").at("batch") == "OK");
  CHECK(with.Store().at("attributes").at("batch_counts") == "1 by nvidia-fs");
  const auto ranges = Scattered(Blocks);
  const std::string before = Contents(with.node, "g");
  const Json in = with.Copy(ranges);
  CheckOneCopy(in, "from", BytesOf(ranges));
  CHECK(ByBatches(in));
  CHECK(Evidence(in).find("through the library's own memory") == std::string::npos);
  CHECK(Contents(with.node, "g") == with.Expected(ranges, before));
  with.CopyIn();
  WriteFile(with.folder / "in", std::string(kDriveBytes, 'o'));
  const Json out = with.Copy(ranges, false);
  CheckOneCopy(out, "to", BytesOf(ranges));
  CHECK(ByBatches(out));
  std::string written(kDriveBytes, 'o');
  for (const Range& range : ranges) {
    written.replace(range.from, range.bytes, with.payload, range.to, range.bytes);
  }
  CHECK(ReadFile(with.folder / "in") == written);
}

TEST_CASE("without batches the same ranges go by a call each, and why is told") {
  const auto ranges = Scattered(Blocks);
  const auto check = [&](WithRanges& with) {
    const std::string before = Contents(with.node, "g");
    const Json in = with.Copy(ranges);
    CheckOneCopy(in, "from", BytesOf(ranges));
    CHECK_FALSE(ByBatches(in));
    CHECK(Contents(with.node, "g") == with.Expected(ranges, before));
  };
  SECTION("switched off") {
    WithRanges with("", "batch = 0\n");
    CHECK_FALSE(with.Store().at("attributes").contains("batch"));
    check(with);
  }
  SECTION("an older library") {
    WithRanges with("", "", SingleFakeCufilePath());
    CHECK(with.Store().at("attributes").at("batch") == "the library has no such call");
    check(with);
  }
  SECTION("one whose counters leave them out") {
    WithRanges with("batch-uncounted");
    const std::string why = with.Store().at("attributes").at("batch");
    CHECK(why.find("16 operations were asked for, and 0 counted as direct") != std::string::npos);
    check(with);
  }
  SECTION("one that crashes or hangs") {
    const std::string what = GENERATE(as<std::string>(), "batch-crash", "batch-hang");
    INFO(what);
    WithRanges with(what, "probe_limit = \"2s\"\n");
    const Json store = with.Store();
    CHECK(store.at("viability").at("viable") == true);
    CHECK(store.at("attributes").at("went") == "directly");
    const std::string why = store.at("attributes").at("batch");
    CHECK(why.find("batches are not used") != std::string::npos);
    check(with);
  }
  SECTION("memory of which the GPU's BAR1 takes a piece at a time") {
    WithRanges with("small-bar");
    check(with);
  }
}

TEST_CASE("what a batch leaves of its entries is moved by calls of their own") {
  const std::string what = GENERATE(as<std::string>(), "batch-short", "batch-invalid");
  INFO(what);
  WithRanges with(what);
  const auto ranges = Scattered(Blocks);
  const std::string before = Contents(with.node, "g");
  const Json in = with.Copy(ranges);
  CheckOneCopy(in, "from", BytesOf(ranges));
  CHECK(ByBatches(in));
  CHECK(Contents(with.node, "g") == with.Expected(ranges, before));
}

TEST_CASE("a library that takes no batch after all is used without, and that is told") {
  WithRanges with("batch-submit");
  const auto ranges = Scattered(Blocks);
  const std::string before = Contents(with.node, "g");
  const Json in = with.Copy(ranges);
  CheckOneCopy(in, "from", BytesOf(ranges));
  CHECK(
      Evidence(in).find("no more batches, since submitting a batch: CU_FILE_BATCH_SUBMIT_FAILED") !=
      std::string::npos);
  CHECK(Contents(with.node, "g") == with.Expected(ranges, before));
}

TEST_CASE("an entry that fails says what it was, and the daemon serves on") {
  WithRanges with("batch-eio");
  const auto ranges = Scattered(Blocks);
  const CommandResult failed = with.node.Run(with.Command(ranges));
  CHECK(failed.exit_status == 1);
  CHECK(failed.reason() == "IO_ERROR");
  CHECK(failed.message().find("reading") != std::string::npos);
  CheckOneCopy(with.CopyIn(), "from");
  CHECK(with.node.Stop() == 0);
}

TEST_CASE(
    "ranges that begin anywhere go directly but for their edges, where both sides lie alike") {
  WithRanges with;
  const auto ranges = Scattered([](uint64_t i) { return 20'000 + i % 977; }, 1001);
  const std::string before = Contents(with.node, "g");
  const Json in = with.Copy(ranges);
  INFO(in.dump(2));
  CHECK(in.at("path") == "storage-direct");
  CHECK(in.at("copies") == 3);
  CHECK(ByBatches(in));
  CHECK(Contents(with.node, "g") == with.Expected(ranges, before));
  with.CopyIn();
  WriteFile(with.folder / "in", std::string(kDriveBytes, 'o'));
  CHECK(with.Copy(ranges, false).at("path") == "storage-direct");
  std::string written(kDriveBytes, 'o');
  for (const Range& range : ranges) {
    written.replace(range.from, range.bytes, with.payload, range.to, range.bytes);
  }
  CHECK(ReadFile(with.folder / "in") == written);
}

TEST_CASE("ranges of which the drive would do little go by slots, and why is told") {
  WithRanges with;
  const auto check = [&](const std::vector<Range>& ranges, const std::string& words) {
    const std::string before = Contents(with.node, "g");
    const Json in = with.Copy(ranges);
    INFO(in.dump(2));
    CHECK(in.at("path") == "storage-bounce");
    const Json refusal = RefusalOfDirect(in);
    CHECK(refusal.at("reason") == "NOT_APPLICABLE");
    CHECK(refusal.at("detail").get<std::string>().find(words) != std::string::npos);
    CHECK(Contents(with.node, "g") == with.Expected(ranges, before));
  };
  auto one = Scattered(Blocks);
  one[77].to += 8;
  one[77].bytes -= 8;
  check(one, "would not lie alike within a block");
  check(Scattered([](uint64_t i) { return i == 9 ? 8192 : 600 + i % 7; }), "less than half");
  check(Scattered([](uint64_t i) { return 600 + i % 7; }), "no whole blocks");
  check(Scattered([](uint64_t) { return 600; }), "elements of 600 bytes");
}

TEST_CASE("counters are read where the library's version has them") {
  WithRanges with("later");
  CHECK(with.Store().at("attributes").at("batch") == "OK");
  CHECK(with.CopyIn().at("path") == "storage-direct");
}
}  // namespace storage_direct_batches_test
