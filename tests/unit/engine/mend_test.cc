// Bytes that arrive unlike the source: the checksums say where, and they are sent again.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/transfers/mends.h"
#include "onecopy/reasons.h"
#include "tests/support/memory.h"
#include "tests/support/process.h"
#include "tests/unit/engine/fragile.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

namespace mend_test {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// At the get of that number, `harm` is done to what has arrived at the destination.
void HarmAt(Fragile& fragile, int get, std::function<void(std::byte*)> harm) {
  fragile.reader->Set([number = std::make_shared<std::atomic<int>>(0), get, harm = std::move(harm),
                       data = fragile.b.data](FakeNics::Hooks& hooks) {
    hooks.on_get = [number, get, harm, data](const LaneInfo&) -> Status {
      if (number->fetch_add(1) == get) harm(data);
      return OkStatus();
    };
  });
}

// In its first answer, the source says that it has other bytes in these blocks.
void ClaimWrong(Fragile& fragile, std::vector<uint64_t> blocks) {
  fragile.cluster.ChangeReplies<FinishReply>(
      [blocks = std::move(blocks),
       claimed = std::make_shared<std::atomic<bool>>(false)](FinishReply& reply) {
        if (claimed->exchange(true)) return;
        reply.checksum.root = std::string(32, 'a');
        for (const uint64_t block : blocks) {
          reply.checksum.blocks.sums[block * digest::kDigestBytes] ^= 1;
        }
      });
}

}  // namespace mend_test
using namespace mend_test;

}  // namespace

TEST_CASE("blocks that arrived wrong, and they alone, are sent again") {
  const std::string path = GENERATE("rdma-direct", "rdma-staged");
  CAPTURE(path);
  Fragile fragile;
  // The last get, when all before it has been there for long.
  std::atomic<int> gets = 0;
  fragile.reader->Set([&](FakeNics::Hooks& hooks) {
    hooks.on_get = [&](const LaneInfo&) -> Status {
      ++gets;
      return OkStatus();
    };
  });
  const TransferInfo well = fragile.Copy(path);
  REQUIRE(well.state == TransferState::kSucceeded);
  CHECK(well.receipt.attempts.size() == 1);
  CHECK(well.receipt.checksum->algorithm == "xxh3-128-tree");
  CHECK(!well.receipt.evidence.contains("sent_again"));

  HarmAt(fragile, gets - 1, [](std::byte* data) {
    data[3 * kMiB] ^= std::byte{1};
    data[5 * kMiB - 1] ^= std::byte{1};  // the block behind that one
    data[20 * kMiB + 7] ^= std::byte{1};
  });
  const TransferInfo copied = fragile.Copy(path);
  INFO(copied.error.ToString());
  REQUIRE(copied.state == TransferState::kSucceeded);
  CHECK(FirstWrong(fragile.b.data, kFragilePayload, 1) == kFragilePayload);
  CHECK(copied.receipt.checksum->value == well.receipt.checksum->value);
  CHECK(copied.receipt.checksum->verified);
  REQUIRE(copied.receipt.attempts.size() == 3);
  CHECK(copied.receipt.attempts[0].outcome == reasons::kChecksumMismatch);
  CHECK(copied.receipt.attempts[0].bytes == kFragilePayload);
  CHECK(copied.receipt.attempts[1].bytes == 2 * kMiB);
  CHECK(copied.receipt.attempts[2].bytes == kMiB);
  CHECK(copied.receipt.attempts[2].outcome == "SUCCEEDED");
  CHECK(copied.receipt.evidence.at("sent_again").find("3 MiB, ") == 0);
  for (const ExecutedStep& step : copied.receipt.steps) {
    CHECK(step.bytes == kFragilePayload + 3 * kMiB);
  }
}

TEST_CASE("the last block, which is short, is sent again") {
  Fragile fragile;
  fragile.reader->Set([harmed = std::make_shared<std::atomic<bool>>(false),
                       data = fragile.b.data](FakeNics::Hooks& hooks) {
    hooks.on_landed = [harmed, data](const Span& span) {
      if (span.offset + span.bytes != kFragilePayload || harmed->exchange(true)) return;
      data[kFragilePayload - 1] ^= std::byte{1};
    };
  });
  const TransferInfo copied = fragile.Copy("rdma-direct");
  INFO(copied.error.ToString());
  REQUIRE(copied.state == TransferState::kSucceeded);
  CHECK(FirstWrong(fragile.b.data, kFragilePayload, 1) == kFragilePayload);
  REQUIRE(copied.receipt.attempts.size() == 2);
  CHECK(copied.receipt.attempts[0].outcome == reasons::kChecksumMismatch);
  CHECK(copied.receipt.attempts[1].bytes == 5);
}

TEST_CASE("what arrives wrong each time fails, and says where") {
  Fragile fragile;
  fragile.reader->Set([data = fragile.b.data](FakeNics::Hooks& hooks) {
    hooks.on_landed = [data](const Span& span) {
      for (const uint64_t at : {uint64_t{0}, 40 * kMiB}) {
        if (Contains({span.offset, span.bytes}, {at, 1})) data[at] = std::byte{0xEE};
      }
    };
  });
  const TransferInfo copied = fragile.Copy("rdma-direct");
  CHECK(copied.state == TransferState::kFailed);
  CHECK(copied.error.reason() == reasons::kChecksumMismatch);
  CHECK(copied.error.code() == Code::kDataLoss);
  INFO(copied.error.ToString());
  CHECK(copied.error.message().find("1 MiB from byte 0 on, 1 MiB from byte 41943040 on") !=
        std::string::npos);
  REQUIRE(copied.receipt.checksum);
  CHECK(!copied.receipt.checksum->verified);
  // Once as a whole, and three times in two parts.
  CHECK(copied.receipt.attempts.size() == 7);
  for (const Attempt& attempt : copied.receipt.attempts) {
    CHECK(attempt.outcome == reasons::kChecksumMismatch);
  }
}

TEST_CASE("what was to be sent again is told where that fails") {
  Fragile fragile;
  ClaimWrong(fragile, {7});
  fragile.reader->Set([&fragile](FakeNics::Hooks& hooks) {
    hooks.on_get = [&fragile](const LaneInfo&) -> Status {
      if (fragile.cluster.calls("Finish") == 0) return OkStatus();
      return {Code::kInternal, reasons::kInternal, "broken by the test"};
    };
  });
  const TransferInfo copied = fragile.Copy("rdma-staged");
  CHECK(copied.state == TransferState::kFailed);
  INFO(copied.error.ToString());
  CHECK(copied.error.code() == Code::kInternal);
  CHECK(copied.error.message().find("1 MiB of 64 MiB had arrived unlike the source") == 0);
  REQUIRE(copied.receipt.checksum);
  CHECK(!copied.receipt.checksum->verified);
}

TEST_CASE("blocks wait for a node that is away to be sent again, as an unfinished payload does") {
  Fragile fragile;
  ClaimWrong(fragile, {0});
  fragile.cluster.HoldAnswers("Finish");
  auto copying = std::async(std::launch::async, [&] { return fragile.Copy("rdma-staged"); });
  WaitUntil("the payload has arrived", [&] { return fragile.cluster.calls("Finish") == 1; });
  fragile.cluster.FailCalls("Prepare");
  fragile.cluster.ReleaseCalls();
  // More often than a transfer of which nothing has arrived may try.
  WaitUntil("it has tried in vain", [&] {
    return fragile.cluster.failed_calls("Prepare") >= 6 ||
           copying.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  fragile.cluster.AllowCalls("Prepare");
  const TransferInfo copied = copying.get();
  INFO(copied.error.ToString());
  REQUIRE(copied.state == TransferState::kSucceeded);
  CHECK(FirstWrong(fragile.b.data, kFragilePayload, 1) == kFragilePayload);
  CHECK(!copied.receipt.evidence.contains("resumed"));
  CHECK(copied.receipt.evidence.at("sent_again").find("1 MiB, ") == 0);
}

TEST_CASE("a source whose checksum is another one than ours says nothing of the bytes") {
  Fragile fragile;
  fragile.cluster.ChangeReplies<FinishReply>([](FinishReply& reply) {
    reply.checksum = {std::string(32, 'a'), {}};
  });
  const TransferInfo copied = fragile.Copy("rdma-staged");
  CHECK(copied.state == TransferState::kFailed);
  CHECK(copied.error.reason() == reasons::kPeerIncompatible);
}

TEST_CASE("a source that lies about its blocks has nothing sent again") {
  Fragile fragile;
  fragile.cluster.ChangeReplies<FinishReply>([](FinishReply& reply) {
    reply.checksum.root = std::string(32, 'a');
    reply.checksum.blocks.sums.pop_back();
  });
  const TransferInfo copied = fragile.Copy("rdma-staged");
  CHECK(copied.error.reason() == reasons::kChecksumMismatch);
  CHECK(copied.receipt.attempts.size() == 1);
}

TEST_CASE("parts that are many are sent as one, and never more often than three times") {
  const std::vector<ByteRange> few{{kMiB, kMiB}, {7 * kMiB, 5}};
  std::vector<ByteRange> many;
  for (uint64_t i = 1; i <= 17; ++i) many.push_back({2 * i * kMiB, kMiB});
  Mends mends;
  CHECK(mends.next() == nullptr);
  CHECK(mends.last());
  CHECK(!mends.Add({}));
  REQUIRE(mends.Add(few));
  CHECK(mends.bytes() == kMiB + 5);
  CHECK(!mends.last());
  mends.Sent();
  CHECK(*mends.next() == ByteRange{7 * kMiB, 5});
  CHECK(mends.last());
  mends.Sent();
  REQUIRE(mends.Add(many));
  CHECK(*mends.next() == ByteRange{2 * kMiB, 33 * kMiB});
  CHECK(mends.bytes() == 33 * kMiB);
  mends.SendAll();
  CHECK(mends.next() == nullptr);
  CHECK(mends.Add(few));
  CHECK(!mends.Add(few));
}

TEST_CASE("a connection that is lost while blocks are sent again loses nothing") {
  Fragile fragile;
  std::atomic<int> gets = 0;
  fragile.reader->Set([&](FakeNics::Hooks& hooks) {
    hooks.on_get = [&](const LaneInfo&) -> Status {
      ++gets;
      return OkStatus();
    };
  });
  REQUIRE(fragile.Copy("rdma-staged").state == TransferState::kSucceeded);
  const int all = gets;
  fragile.reader->Set([number = std::make_shared<std::atomic<int>>(0), all,
                       data = fragile.b.data](FakeNics::Hooks& hooks) {
    hooks.on_get = [number, all, data](const LaneInfo&) -> Status {
      const int now = number->fetch_add(1);
      if (now == all - 1) data[30 * kMiB] ^= std::byte{1};
      if (now != all) return OkStatus();
      return {Code::kUnavailable, reasons::kLinkDown, "lost by the test"};
    };
  });
  const TransferInfo copied = fragile.Copy("rdma-staged");
  INFO(copied.error.ToString());
  REQUIRE(copied.state == TransferState::kSucceeded);
  CHECK(FirstWrong(fragile.b.data, kFragilePayload, 1) == kFragilePayload);
  REQUIRE(copied.receipt.attempts.size() == 3);
  CHECK(copied.receipt.attempts[0].outcome == reasons::kChecksumMismatch);
  CHECK(copied.receipt.attempts[1].outcome == reasons::kLinkDown);
  CHECK(copied.receipt.attempts[2].bytes == kMiB);
}
