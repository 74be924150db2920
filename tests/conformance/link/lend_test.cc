// Pieces of memory that are lent one by one, as slots are.
#include <vector>

#include "onecopy/reasons.h"
#include "tests/conformance/link/links.h"
#include "tests/support/catch.h"
#include "tests/support/memory.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

constexpr ChannelId kLendChannel = 9;
constexpr uint64_t kSlot = 64 << 10;

}  // namespace

TEST_CASE("what is lent opens its own bytes and no others, until its end") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);
  const RegionRef slab = HostRegion(4 * kSlot);
  const RegionRef sink = HostRegion(kSlot);
  Fill({slab, 0, 4 * kSlot}, 1);
  auto first = connected->Lend({slab, kSlot, 100});
  auto second = connected->Lend({slab, 2 * kSlot, kSlot});
  REQUIRE_OK(first);
  REQUIRE_OK(second);
  const auto get = [&](const RemoteKey& key, uint64_t offset, uint64_t bytes) {
    return connected->StartGet({kLendChannel, &key, offset, {sink, 0, bytes}}).get().status;
  };
  REQUIRE_OK(get(*first, 0, 100));
  CHECK(FirstWrong({sink, 0, 100}, 1, kSlot) == 100);
  CHECK(get(*first, 0, 101).reason() == reasons::kAccessDenied);
  CHECK(get(*first, 100, 1).reason() == reasons::kAccessDenied);
  CHECK(get(*first, kSlot, 1).reason() == reasons::kAccessDenied);
  REQUIRE_OK(get(*second, 0, kSlot));
  CHECK(FirstWrong({sink, 0, kSlot}, 1, 2 * kSlot) == kSlot);

  connected->EndLoan(*first);
  CHECK(get(*first, 0, 1).reason() == reasons::kAccessDenied);
  REQUIRE_OK(get(*second, 0, 1));
  RevokeAndWait(*connected->owner, *second);
  CHECK(get(*second, 0, 1).reason() == reasons::kAccessDenied);
}

TEST_CASE("slots are lent again and again, each time under another key") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);
  const RegionRef slab = HostRegion(2 * kSlot);
  const RegionRef sink = HostRegion(kSlot);
  std::vector<RemoteKey> ended;
  for (uint64_t round = 0; round < 200; ++round) {
    const uint64_t at = round % 2 * kSlot;
    const uint64_t bytes = 1 + round * 97;
    Fill({slab, at, bytes}, round);
    auto key = connected->Lend({slab, at, bytes});
    REQUIRE_OK(key);
    const Got got = connected->StartGet({kLendChannel, &*key, 0, {sink, 0, bytes}}).get();
    REQUIRE_OK(got.status);
    REQUIRE(FirstWrong({sink, 0, bytes}, round) == bytes);
    connected->EndLoan(*key);
    ended.push_back(std::move(*key));
  }
  for (const RemoteKey& key : ended) {
    const Got got = connected->StartGet({kLendChannel, &key, 0, {sink, 0, 1}}).get();
    REQUIRE(got.status.reason() == reasons::kAccessDenied);
  }
}

TEST_CASE("loans that one end gives up and the other withdraws at the same time end once") {
  ONECOPY_FOR_EACH_LINK(link);
  auto pair = link.make();
  REQUIRE_OK(pair);
  auto connected = Connect(**pair);
  REQUIRE_OK(connected);
  const RegionRef slab = HostRegion(kSlot);
  for (int round = 0; round < 50; ++round) {
    auto key = connected->Lend({slab, 0, kSlot});
    REQUIRE_OK(key);
    connected->reader->Release(*key);
    RevokeAndWait(*connected->owner, *key);
  }
  auto key = connected->Lend({slab, 0, kSlot});
  REQUIRE_OK(key);
  const RegionRef sink = HostRegion(kSlot);
  CHECK(connected->StartGet({kLendChannel, &*key, 0, {sink, 0, kSlot}}).get().status.ok());
}
