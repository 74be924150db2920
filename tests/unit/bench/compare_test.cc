#include "bench/measure/compare.h"

#include "bench/measure/payload.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace onecopy::bench {
namespace {

// Writes down what it is asked, and takes as long as it is told.
class Scripted final : public Mover {
 public:
  Scripted(std::string name, std::string& diary, std::vector<double> seconds)
      : name_(std::move(name)), diary_(diary), seconds_(std::move(seconds)) {}

  Status Fill(uint64_t seed) override {
    filled_ = seed;
    return OkStatus();
  }
  Result<Moved> Move() override {
    diary_ += name_;
    if (at_ == failing_at_) return Status(Code::kUnavailable, reasons::kPeerDown, "west has gone");
    Moved moved{.seconds = seconds_.at(at_++), .lanes = 3};
    moved.cpu_seconds = cpu_seconds_;
    moved.details["figure"] = static_cast<double>(at_);
    return moved;
  }
  Result<bool> Verify(uint64_t seed) override { return seed == filled_ && at_ != wrong_at_; }

  void UseCpu(double seconds) { cpu_seconds_ = seconds; }
  void FailAt(size_t move) { failing_at_ = move; }
  void LoseBytesAt(size_t move) { wrong_at_ = move + 1; }

 private:
  const std::string name_;
  std::string& diary_;
  const std::vector<double> seconds_;
  std::optional<double> cpu_seconds_;
  size_t at_ = 0;
  size_t failing_at_ = SIZE_MAX;
  size_t wrong_at_ = SIZE_MAX;
  uint64_t filled_ = 0;
};

struct Rig {
  std::string diary;
  Scripted work{"w", diary, {9, 2, 4, 2, 4}};
  std::vector<double> ceiling_seconds = {9, 1, 2, 1, 2};
  size_t ceiling_fails_at = SIZE_MAX;
  unsigned lanes_of_ceiling = 0;
  Row row = {.work = "w", .bytes = 100, .ceiling = "c", .floor = 0.5};

  std::optional<double> ceiling_cpu;

  Row Run(CompareOptions options) { return RunWithCpu(options).row; }
  Compared RunWithCpu(const CompareOptions& options) {
    return CompareWithCpu(
        row, work,
        [&](const Moved& warm_up) -> Result<std::unique_ptr<Mover>> {
          lanes_of_ceiling = warm_up.lanes;
          auto ceiling = std::make_unique<Scripted>("c", diary, ceiling_seconds);
          ceiling->FailAt(ceiling_fails_at);
          if (ceiling_cpu) ceiling->UseCpu(*ceiling_cpu);
          return std::unique_ptr<Mover>(std::move(ceiling));
        },
        options);
  }
};

TEST_CASE("work and ceiling take turns after a warm-up, and so does who begins") {
  Rig rig;
  const Row row = rig.Run({.samples = 4});
  CHECK(rig.diary ==
        "wc"
        "cw"
        "wc"
        "cw"
        "wc");
  CHECK(row.values == std::vector<double>{50, 25, 50, 25});
  CHECK(row.ceiling_values == std::vector<double>{100, 50, 100, 50});
  CHECK(row.ratio() == 0.5);
  CHECK(row.status == RowStatus::kOk);
  CHECK(row.verified == true);
}

TEST_CASE("the ceiling is made as the work's warm-up moved") {
  Rig rig;
  const Row row = rig.Run({.samples = 1});
  CHECK(rig.lanes_of_ceiling == 3);
  CHECK(row.details.at("lanes") == 3);
  CHECK(row.details.at("figure") == 2);
}

TEST_CASE("a ceiling's further figures are told beside the work's") {
  Rig rig;
  CHECK(rig.Run({.samples = 1}).details.at("ceiling_figure") == 2);
}

TEST_CASE("what has no ceiling is measured on its own") {
  Rig rig;
  rig.row.target = 0.9;
  const Row row = Compare(rig.row, rig.work, NoCeiling, {.samples = 2});
  CHECK(rig.diary == "www");
  CHECK(row.status == RowStatus::kOk);
  CHECK(row.values.size() == 2);
  CHECK(row.ceiling.empty());
  CHECK_FALSE(row.ratio().has_value());
  CHECK_FALSE(row.floor.has_value());
  CHECK_FALSE(row.target.has_value());
  CHECK(row.verified == true);
}

TEST_CASE("CPU time is told for each gigabyte, beside the ceiling's") {
  Rig rig;
  rig.row.bytes = 500'000'000;
  rig.row.target = 0.95;
  rig.work.UseCpu(0.6);
  rig.ceiling_cpu = 0.5;
  const Row row = CpuRow(rig.RunWithCpu({.samples = 2}));
  CHECK(row.work == "cpu w");
  CHECK(row.unit == Unit::kSecondsPerGigabyte);
  CHECK(row.values == std::vector<double>{1.2, 1.2});
  CHECK(row.ceiling_values == std::vector<double>{1.0, 1.0});
  CHECK(row.ratio() == 1.2);
  CHECK(row.ceiling == "plain-sockets");
  CHECK(row.target == 1.1);
  CHECK(row.status == RowStatus::kOk);
}

TEST_CASE("CPU time that nobody knows is WAIVED, and that of what was not measured says why") {
  Rig rig;
  const Row unknown = CpuRow(rig.RunWithCpu({.samples = 1}));
  CHECK(unknown.status == RowStatus::kWaived);
  CHECK(unknown.reason == "NOT_APPLICABLE");
  const Row none = CpuRow({.row = Waived({.work = "w"}, {Code::kNotFound, "NO_GPU", "none"})});
  CHECK(none.status == RowStatus::kWaived);
  CHECK(none.reason == "NO_GPU");
}

TEST_CASE("one wrong payload of many fails the row") {
  Rig rig;
  rig.work.LoseBytesAt(2);
  const Row row = rig.Run({.samples = 4});
  CHECK(row.status == RowStatus::kFailed);
  CHECK(row.reason == kPayloadWrong);
}

TEST_CASE("a work that breaks off keeps its whole pairs and says why") {
  Rig rig;
  rig.work.FailAt(3);
  const Row row = rig.Run({.samples = 4});
  CHECK(row.status == RowStatus::kFailed);
  CHECK(row.reason == "PEER_DOWN");
  CHECK(row.values.size() == 2);
  CHECK(row.ceiling_values.size() == 2);
}

TEST_CASE("a ceiling that breaks off fails the row, too") {
  Rig rig;
  rig.ceiling_fails_at = 1;
  const Row row = rig.Run({.samples = 4});
  CHECK(row.status == RowStatus::kFailed);
  CHECK(row.values.empty());
  CHECK_FALSE(row.verified.has_value());
}

TEST_CASE("a run that is stopped measures nothing more") {
  Rig rig;
  const Row row = rig.Run({.samples = 4, .stopped = [] { return true; }});
  CHECK(rig.diary.empty());
  CHECK(row.reason == "CANCELLED");
}

TEST_CASE("a payload is found right only where every byte is, at every size") {
  for (const uint64_t bytes : {1U, 7U, 8U, 9U, 4099U, (16U << 20) + 3, 50U << 20}) {
    std::vector<std::byte> data(bytes);
    FillPayload(data.data(), bytes, 5);
    CHECK_FALSE(FindWrong(data.data(), bytes, 5).has_value());
    CHECK(FindWrong(data.data(), bytes, 6).has_value());
    data.back() ^= std::byte{1};
    CHECK(FindWrong(data.data(), bytes, 5) == bytes - 1 - (bytes - 1) % sizeof(uint64_t));
    data.front() ^= std::byte{2};
    CHECK(FindWrong(data.data(), bytes, 5) == 0);
  }
}

}  // namespace
}  // namespace onecopy::bench
