// What is counted of transfers, and that it stays bounded whatever peers say.
#include "daemon/engine/transfers/tally.h"

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::engine;

namespace {

TransferRecord Ended(const std::string& from, const std::string& to, const std::string& path,
                     uint64_t bytes, const Status& outcome = OkStatus()) {
  TransferRecord record;
  TransferInfo& info = record.info;
  info.source.node = from;
  info.destination.node = to;
  info.bytes = info.bytes_done = bytes;
  info.receipt.path = path;
  info.receipt.link = from == to ? "" : "tcp";
  info.receipt.steps.resize(3);
  info.error = outcome;
  info.state = outcome.ok() ? TransferState::kSucceeded : TransferState::kFailed;
  return record;
}

uint64_t Bytes(const Tally& tally, const std::string& path, const std::string& peer,
               Direction direction) {
  const auto& bytes = tally.figures().bytes;
  const auto found = bytes.find({path, peer.empty() ? "" : "tcp", peer, direction});
  return found == bytes.end() ? 0 : found->second;
}

}  // namespace

TEST_CASE("a transfer is counted by where its bytes go") {
  Tally tally("here", {"tcp"});
  tally.Note(Ended("here", "here", "local", 1));
  tally.Note(Ended("there", "here", "tcp-direct", 2));
  tally.Note(Ended("here", "there", "tcp-direct", 4));
  tally.Note(Ended("there", "yonder", "tcp-direct", 8));
  CHECK(Bytes(tally, "local", "", Direction::kInside) == 1);
  CHECK(Bytes(tally, "tcp-direct", "there", Direction::kIn) == 2);
  CHECK(Bytes(tally, "tcp-direct", "there", Direction::kOut) == 4);
  CHECK(tally.figures().bytes.size() == 3);
  CHECK(tally.figures().ended.size() == 4);
  CHECK(tally.figures().sizes.sum == 3);
  CHECK(tally.figures().copies.at(3).transfers == 2);
}

TEST_CASE("parts bring the bytes of a series, which is the transfer") {
  Tally tally("here", {"tcp"});
  TransferRecord part = Ended("here", "here", "storage-bounce", 100);
  part.info.part_of = TransferId("whole");
  tally.Note(part);
  tally.Note(part);
  TransferRecord whole = Ended("here", "here", "storage-bounce", 200);
  whole.series = true;
  tally.Note(whole);
  CHECK(Bytes(tally, "storage-bounce", "", Direction::kInside) == 200);
  REQUIRE(tally.figures().ended.size() == 1);
  CHECK(tally.figures().ended.begin()->second == 1);
  CHECK(tally.figures().copies.at(3).transfers == 2);
}

TEST_CASE("records of what a ring carried are not counted once more") {
  Tally tally("here", {"tcp"});
  TransferRecord record = Ended("here", "here", "local", 1);
  record.by_ring = true;
  tally.Note(record);
  CHECK(tally.figures().ended.empty());
  Plan plan;
  plan.path = "local";
  Tally::RingAmount amount;
  for (int i = 0; i < 5; ++i) {
    amount.durations.Note(std::chrono::microseconds(1));
    amount.sizes.Note(4096);
  }
  tally.AddRing({&plan, "", Direction::kInside, 1}, amount);
  CHECK(Bytes(tally, "local", "", Direction::kInside) == 5 * 4096);
  CHECK(tally.figures().ended.at({"local", Direction::kInside, TransferState::kSucceeded, ""}) ==
        5);
  CHECK(tally.figures().copies.at(1).bytes == 5 * 4096);
}

TEST_CASE("a worse path is held against the best one that applied") {
  Tally tally("here", {"tcp"});
  TransferRecord record = Ended("there", "here", "tcp-staged", 10);
  record.info.receipt.refused = {{"tcp-direct", "SWITCHED_OFF", "", ""},
                                 {"peer-direct", "OTHER_NODE", "", ""},
                                 {"rdma-bounce", "NO_RDMA_DEVICE", "", ""},
                                 {"rdma-direct", "GPU_NOT_PINNABLE", "", ""}};
  record.info.receipt.attempts = {{"rdma-staged", "LINK_DOWN", 0}, {"tcp-staged", "SUCCEEDED", 10}};
  tally.Note(record);
  REQUIRE(tally.figures().worse.size() == 1);
  CHECK(tally.figures().worse.begin()->first ==
        TransferFigures::WorseKey{3, "tcp-staged", "rdma-direct", "GPU_NOT_PINNABLE"});
  CHECK(tally.figures().worse.begin()->second.bytes == 10);
  CHECK(tally.figures().refusals.size() == 3);
  CHECK(tally.figures().failovers.at({"rdma-staged", "tcp-staged"}) == 1);
}

TEST_CASE("whatever peers say, there are only so many series") {
  Tally tally("here", {"tcp"});
  for (int i = 0; i < 5000; ++i) {
    const std::string number = std::to_string(i);
    TransferRecord record = Ended("here", "peer-" + number, "path-" + number, 1,
                                  {Code::kInternal, "REASON_" + number, "so it says"});
    record.info.receipt.link = "link-" + number;
    tally.Note(record);
    record.info.error = {Code::kInternal, "not \"a\" reason\n" + number, "so it says"};
    tally.Note(record);
    tally.NoteRefused(record.info.error);
  }
  const TransferFigures& figures = tally.figures();
  CHECK(figures.bytes.size() == kMaxPeersTold + 1);
  CHECK(figures.ended.size() == 129);
  CHECK(figures.requests_refused.size() == 1);
  uint64_t bytes = 0;
  for (const auto& [key, count] : figures.bytes) {
    bytes += count;
    CHECK(key.path == "other");
    CHECK(key.link == "other");
  }
  CHECK(bytes == 10'000);
  CHECK(figures.bytes.at({"other", "other", "(more)", Direction::kOut}) ==
        2 * (5000 - kMaxPeersTold));
}

TEST_CASE("a peer says no more of its bytes than were asked for") {
  Tally tally("here", {"tcp"});
  TransferRecord record = Ended("here", "there", "tcp-direct", 10);
  record.info.bytes_done = UINT64_MAX;
  tally.Note(record);
  CHECK(Bytes(tally, "tcp-direct", "there", Direction::kOut) == 10);
}

TEST_CASE("a peer that goes makes room for another one") {
  Tally tally("here", {"tcp"});
  for (size_t i = 0; i < kMaxPeersTold; ++i) {
    tally.Note(Ended("peer-" + std::to_string(i), "here", "tcp-direct", 1));
  }
  tally.Note(Ended("one-more", "here", "tcp-direct", 1));
  CHECK(Bytes(tally, "tcp-direct", "one-more", Direction::kIn) == 0);
  tally.DropPeer("peer-0");
  CHECK(Bytes(tally, "tcp-direct", "peer-0", Direction::kIn) == 0);
  tally.Note(Ended("one-more", "here", "tcp-direct", 1));
  CHECK(Bytes(tally, "tcp-direct", "one-more", Direction::kIn) == 1);
}
