#include "onecopy/transfer.h"

#include "tests/support/catch.h"

namespace merge_receipts_test {
using onecopy::ExecutedStep;
using onecopy::MergeReceipt;
using onecopy::Receipt;
using onecopy::Step;

namespace {

Step Named(const std::string& from, const std::string& to) {
  Step step;
  step.node = "west";
  step.from = from;
  step.to = to;
  step.by = "cpu";
  return step;
}

Receipt Part(uint64_t bytes) {
  Receipt part;
  part.path = "tcp-direct";
  part.link = "tcp";
  part.steps = {{Named("host", "kernel"), bytes}, {Named("kernel", "host"), bytes}};
  part.lanes = {{"lo", "127.0.0.1:1", bytes / 2}, {"lo", "127.0.0.1:2", bytes - bytes / 2}};
  part.seconds = 1;
  part.negotiation_seconds = 0.5;
  part.refused = {{"rdma-direct", "NO_RDMA_DEVICE", "none", ""}};
  part.attempts = {{"tcp-direct", "SUCCEEDED", bytes}};
  part.evidence = {{"bytes", std::to_string(bytes)}, {"algorithm", "cubic"}};
  return part;
}

}  // namespace

TEST_CASE("parts of one payload become one receipt, with each step once") {
  Receipt whole;
  MergeReceipt(Part(10), whole);
  MergeReceipt(Part(5), whole);
  CHECK(whole.path == "tcp-direct");
  CHECK(whole.link == "tcp");
  CHECK(whole.copies() == 2);
  CHECK(whole.steps[0] == ExecutedStep{Named("host", "kernel"), 15});
  CHECK(whole.lanes ==
        std::vector<onecopy::LaneBytes>{{"lo", "127.0.0.1:1", 7}, {"lo", "127.0.0.1:2", 8}});
  CHECK(whole.negotiation_seconds == 1);
  CHECK(whole.refused.size() == 1);
  CHECK(whole.attempts == std::vector<onecopy::Attempt>{{"tcp-direct", "SUCCEEDED", 15}});
  CHECK(whole.evidence.at("bytes") == "15");
  CHECK(whole.evidence.at("algorithm") == "cubic");
  CHECK(whole.seconds == 0);  // the caller knows how the parts overlapped
}

TEST_CASE("a pass that another engine made of another part is one pass, by both") {
  Receipt engine = Part(10);
  engine.steps[0].step.by = "copy-engine";
  Receipt whole;
  MergeReceipt(Part(5), whole);
  MergeReceipt(engine, whole);
  MergeReceipt(engine, whole);
  REQUIRE(whole.copies() == 2);
  CHECK(whole.steps[0].step.by == "cpu,copy-engine");
  CHECK(whole.steps[0].bytes == 25);
}

TEST_CASE("two equal passes of one part stay two") {
  Receipt part;
  part.steps = {{Named("host", "host"), 10}, {Named("host", "host"), 10}};
  Receipt whole;
  MergeReceipt(part, whole);
  MergeReceipt(part, whole);
  CHECK(whole.copies() == 2);
  CHECK(whole.steps[0].bytes == 20);
  CHECK(whole.steps[1].bytes == 20);
}

TEST_CASE("two lanes to one address stay two") {
  Receipt part;
  part.lanes = {{"lo", "127.0.0.1:1", 10}, {"lo", "127.0.0.1:1", 20}};
  Receipt whole;
  MergeReceipt(part, whole);
  MergeReceipt(part, whole);
  CHECK(whole.lanes ==
        std::vector<onecopy::LaneBytes>{{"lo", "127.0.0.1:1", 20}, {"lo", "127.0.0.1:1", 40}});
}

TEST_CASE("parts that went different ways show every way and every step") {
  Receipt other = Part(4);
  other.path = "tcp-bounce";
  other.steps = {{Named("host", "pinned"), 4}, {Named("kernel", "host"), 4}};
  other.attempts = {{"rdma-direct", "LINK_DOWN", 0}, {"tcp-bounce", "SUCCEEDED", 4}};
  other.key = "token";
  other.registration = "host";
  other.emulated = true;
  Receipt whole;
  MergeReceipt(Part(10), whole);
  MergeReceipt(other, whole);
  MergeReceipt(Part(1), whole);
  CHECK(whole.path == "tcp-direct,tcp-bounce");
  CHECK(whole.copies() == 3);
  CHECK(whole.steps[0].bytes == 11);
  CHECK(whole.steps[1].bytes == 15);
  CHECK(whole.steps[2].bytes == 4);
  CHECK(whole.attempts.size() == 3);
  CHECK(whole.key == "token");
  CHECK(whole.registration == "host");
  CHECK(whole.emulated);
}

TEST_CASE("a refusal of one path for one reason is kept once, in its newest words") {
  Receipt first;
  first.refused = {{"rdma-direct", "SLOWER_MEASURED", "1 GB/s", ""},
                   {"local", "OTHER_NODE", "", ""}};
  Receipt second;
  second.refused = {{"rdma-direct", "SLOWER_MEASURED", "2 GB/s", ""},
                    {"rdma-direct", "NO_RDMA_DEVICE", "", ""}};
  Receipt whole;
  MergeReceipt(first, whole);
  MergeReceipt(second, whole);
  REQUIRE(whole.refused.size() == 3);
  CHECK(whole.refused[0].detail == "2 GB/s");
}
}  // namespace merge_receipts_test
