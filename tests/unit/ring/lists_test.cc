// Transfers of many pieces, whose list lies in the memory that the client shares with the daemon.
#include <atomic>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/unit/ring/thread_rig.h"

using namespace onecopy;
using namespace onecopy::ring;

namespace {

constexpr uint64_t kPiece = 64;

struct Columns {
  std::vector<uint64_t> sources;
  std::vector<uint64_t> targets;

  ClientEnd::Pieces pieces(uint64_t from = 0, uint64_t to = 0) const {
    return {from, sources, to, targets};
  }
};

// Piece i comes from block 3 * i and goes to block i, in descending order.
Columns Descending(uint64_t count) {
  Columns columns;
  for (uint64_t i = count; i-- > 0;) {
    columns.sources.push_back(3 * i * kPiece);
    columns.targets.push_back(i * kPiece);
  }
  return columns;
}

struct Listed {
  Listed() {
    testing::Fill({from, 0, kBuffer}, 1);
    testing::Fill({to, 0, kBuffer}, 2);
  }
  uint64_t Submit(const ClientEnd::Pieces& pieces, uint64_t bytes = kPiece) {
    uint64_t number = 0;
    REQUIRE(one.client->end.SubmitMany(word, pieces, bytes, &number));
    return number;
  }
  Ended Run(const Columns& columns, uint64_t bytes = kPiece) {
    Submit(columns.pieces(), bytes);
    return one.client->Next();
  }
  void ExpectUntouched() {
    CHECK(testing::FirstWrong({to, 0, kBuffer}, 2) == kBuffer);
    ExpectServes(rig);
  }

  Rig rig;
  const RegionRef from = testing::HostRegion(kBuffer);
  const RegionRef to = testing::HostRegion(kBuffer);
  const Rig::Attached one = rig.Attach();
  std::shared_ptr<Route> route = Rig::Between(from, to);
  uint64_t word = rig.Install(one.id, 0, route);
};

}  // namespace

TEST_CASE("each piece of a list arrives, and nothing beside them") {
  Listed with;
  const Columns columns = Descending(500);
  const uint64_t number = with.Submit(columns.pieces(kPiece, 2 * kPiece));
  REQUIRE(with.one.client->Next().code == Code::kOk);
  for (uint64_t i = 0; i < 500; ++i) {
    const Span piece{with.to, (2 + i) * kPiece, kPiece};
    REQUIRE(testing::FirstWrong(piece, 1, (1 + 3 * i) * kPiece) == kPiece);
  }
  CHECK(testing::FirstWrong({with.to, 0, 2 * kPiece}, 2) == 2 * kPiece);
  const uint64_t after = 502 * kPiece;
  CHECK(testing::FirstWrong({with.to, after, kBuffer - after}, 2, after) == kBuffer - after);

  const auto entry = with.one.journal->Read(number);
  REQUIRE(entry);
  CHECK(entry->pieces == 500);
  CHECK(entry->bytes == 500 * kPiece);
  CHECK(entry->from == kPiece);
  CHECK(entry->from_bytes == (3 * 499 + 1) * kPiece);
  CHECK(entry->to == 2 * kPiece);
  CHECK(entry->to_bytes == 500 * kPiece);
  CHECK(with.one.journal->bytes() == 500 * kPiece);
}

TEST_CASE("a list is counted from where the route's buffers begin") {
  Listed with;
  auto inside = Rig::Between(with.from, with.to);
  inside->from_base = 4096;
  inside->to_base = 8192;
  inside->from = inside->to = {0, 4096};
  with.word = with.rig.Install(with.one.id, 1, inside);
  REQUIRE(with.Run({{0, 4096 - kPiece}, {kPiece, 0}}).code == Code::kOk);
  CHECK(testing::FirstWrong({with.to, 8192 + kPiece, kPiece}, 1, 4096) == kPiece);
  CHECK(testing::FirstWrong({with.to, 8192, kPiece}, 1, 8192 - kPiece) == kPiece);
  ExpectRefusal(with.Run({{0, 4096}, {0, kPiece}}), Code::kOutOfRange, reasons::kRangeOutOfBuffer);
}

TEST_CASE("more lists than there are places wait for the ends of others") {
  Listed with;
  const Columns columns = Descending(4);
  uint64_t number = 0;
  for (uint32_t i = 0; i < kLists; ++i) with.Submit(columns.pieces());
  CHECK_FALSE(with.one.client->end.SubmitMany(with.word, columns.pieces(), kPiece, &number));
  // One piece needs no list.
  with.one.client->Submit(with.word, 0, 0, kPiece);
  for (uint32_t i = 0; i < kLists + 1; ++i) CHECK(with.one.client->Next().code == Code::kOk);
  for (uint32_t i = 0; i < 3 * kLists; ++i) CHECK(with.Run(columns).code == Code::kOk);
}

TEST_CASE("a list that is not allowed moves nothing") {
  Listed with;
  constexpr uint64_t kEnd = UINT64_MAX;
  SECTION("one piece beyond the end") {
    ExpectRefusal(with.Run({{0, kBuffer - kPiece + 1}, {0, kPiece}}), Code::kOutOfRange,
                  reasons::kRangeOutOfBuffer);
    ExpectRefusal(with.Run({{0, kPiece}, {0, kBuffer}}), Code::kOutOfRange,
                  reasons::kRangeOutOfBuffer);
  }
  SECTION("numbers that go round") {
    for (const uint64_t far : {kEnd, kEnd - kPiece, kEnd - kPiece + 1, kEnd - kPiece + 2}) {
      ExpectRefusal(with.Run({{0, far}, {0, kPiece}}), Code::kOutOfRange,
                    reasons::kRangeOutOfBuffer);
      ExpectRefusal(with.Run({{0, kPiece}, {far, 0}}), Code::kOutOfRange,
                    reasons::kRangeOutOfBuffer);
    }
  }
  SECTION("no bytes, or too many") {
    for (const uint64_t bytes : {uint64_t{0}, kMaxBytes + 1, kEnd, kEnd / 2 + 1}) {
      ExpectRefusal(with.Run({{0, kPiece}, {0, kPiece}}, bytes), Code::kInvalidArgument,
                    reasons::kBadSize);
    }
    // Host memory: the ring's thread makes these copies by itself.
    ExpectRefusal(with.Run(Descending(kMaxBytes / 256 + 1), 256), Code::kInvalidArgument,
                  reasons::kBadSize);
  }
  SECTION("a list that is none") {
    Shared& shared = with.one.client->shared();
    for (const uint64_t list : {ListWord(kLists, 1), ListWord(0, kMostPieces + 1), ListWord(1, 0),
                                kEnd, ListWord(UINT32_MAX, 1)}) {
      // As a client does that writes the entry by itself.
      const uint64_t number = shared.submitted.load();
      Submission& entry = shared.submissions[number % kSubmissions];
      entry.words[Submission::kNumber].store(number);
      entry.words[Submission::kRoute].store(with.word);
      entry.words[Submission::kFrom].store(0);
      entry.words[Submission::kTo].store(0);
      entry.words[Submission::kBytes].store(kPiece);
      entry.words[Submission::kList].store(list);
      shared.submitted.store(number + 1);
      with.one.client->Wake();
      ExpectRefusal(with.one.client->Next(), Code::kInvalidArgument, reasons::kBadArgument);
    }
  }
  with.ExpectUntouched();
}

TEST_CASE("inside one memory, a list whose pieces may meet is refused") {
  Listed with;
  auto inside = Rig::Between(with.from, with.from);
  with.word = with.rig.Install(with.one.id, 1, inside);
  ExpectRefusal(with.Run({{0, 4 * kPiece}, {2 * kPiece, 6 * kPiece}}), Code::kInvalidArgument,
                reasons::kRangesOverlap);
  CHECK(testing::FirstWrong({with.from, 0, kBuffer}, 1) == kBuffer);
  REQUIRE(with.Run({{0, kPiece}, {8 * kPiece, 4 * kPiece}}).code == Code::kOk);
  CHECK(testing::FirstWrong({with.from, 8 * kPiece, kPiece}, 1) == kPiece);
}

TEST_CASE("lists that change while they are read stay inside what is allowed") {
  Listed with;
  constexpr uint64_t kAllowed = 4096;
  with.route = Rig::Between(with.from, with.to);
  with.route->from = with.route->to = {0, kAllowed};
  with.word = with.rig.Install(with.one.id, 1, with.route);
  Shared& shared = with.one.client->shared();
  std::atomic<bool> stop{false};
  std::thread tearing([&] {
    for (uint64_t i = 0; !stop; ++i) {
      for (Piece* list : shared.lists) {
        list[i % 8].to.store(i % 3 == 0 ? kBuffer - kPiece : 0);
        list[i % 8].from.store(i % 5 == 0 ? UINT64_MAX - i : 0);
      }
    }
  });
  const Columns columns = Descending(8);
  int succeeded = 0;
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    (with.Run(columns).code == Code::kOk ? succeeded : refused) += 1;
  }
  stop = true;
  tearing.join();
  CHECK(succeeded + refused == 5000);
  const Span rest{with.to, kAllowed, kBuffer - kAllowed};
  CHECK(testing::FirstWrong(rest, 2, kAllowed) == rest.bytes);
  ExpectServes(with.rig);
}
