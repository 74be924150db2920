// What the engine takes of the long transfers that have ended.
#include "daemon/ring/long_ends.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

using namespace onecopy::ring;

namespace {

Entry Numbered(uint64_t number) {
  Entry entry;
  entry.number = number;
  return entry;
}

}  // namespace

TEST_CASE(
    "a client that ends transfers as quickly as they are taken does not keep who takes them") {
  uint64_t news = 0;
  LongEnds ends([&] { ++news; });
  uint64_t put = 0;
  const auto end_one = [&] {
    ends.Put(Numbered(put++));
    ends.Tell();
  };
  end_one();
  REQUIRE(news == 1);
  std::vector<uint64_t> taken;
  CHECK(ends.TakeSome(16, [&](const Entry& entry) {
    taken.push_back(entry.number);
    end_one();
  }));
  REQUIRE(taken.size() == 16);
  CHECK(news == 1);  // the same taker comes again; a second one would come on top
  // What is left is there for the next time, in order, and then there is nothing.
  CHECK_FALSE(ends.TakeSome(16, [&](const Entry& entry) { taken.push_back(entry.number); }));
  REQUIRE(taken.size() == 17);
  for (uint64_t i = 0; i < taken.size(); ++i) CHECK(taken[i] == i);
  end_one();
  CHECK(news == 2);
}

TEST_CASE("who takes all long ends out of turn leaves the news to who was told") {
  uint64_t news = 0;
  LongEnds ends([&] { ++news; });
  const auto end_one = [&] {
    ends.Put(Numbered(news));
    ends.Tell();
  };
  uint64_t taken = 0;
  const auto take = [&](const Entry&) { ++taken; };
  end_one();
  ends.TakeAll(take);
  CHECK(taken == 1);
  end_one();
  CHECK(news == 1);  // who heard of the first one has not come yet, and will find the second
  CHECK_FALSE(ends.TakeSome(16, take));
  CHECK(taken == 2);
  end_one();
  CHECK(news == 2);
}

TEST_CASE("after the last long end was taken the next one is told") {
  uint64_t news = 0;
  LongEnds ends([&] { ++news; });
  for (uint64_t i = 0; i < 3; ++i) {
    ends.Put(Numbered(i));
    ends.Tell();
    CHECK(news == i + 1);  // once for what nobody has begun to take
    ends.Tell();
    CHECK(news == i + 1);
    uint64_t taken = 0;
    CHECK_FALSE(ends.TakeSome(16, [&](const Entry&) { ++taken; }));
    CHECK(taken == 1);
  }
}

TEST_CASE("of long ends that one thread puts another one takes each, in order, and is told once") {
  constexpr uint64_t kMany = 100'000;
  std::atomic<uint64_t> told{0};
  std::atomic<uint64_t> most_told{0};
  LongEnds ends([&] { most_told = std::max<uint64_t>(most_told, ++told); });
  std::thread putting([&] {
    for (uint64_t i = 0; i < kMany; ++i) {
      while (!ends.HasRoomFor(1)) std::this_thread::yield();
      ends.Put(Numbered(i));
      if (i % 3 == 0 || i == kMany - 1) ends.Tell();
    }
  });
  uint64_t next = 0;
  bool in_order = true;
  const auto take = [&](const Entry& entry) { in_order = in_order && entry.number == next++; };
  uint64_t turns = 0;
  while (next < kMany) {
    while (told == 0) std::this_thread::yield();
    --told;
    if (ends.TakeSome(4, take)) ++told;  // comes again
    if (++turns % 1000 == 0) ends.TakeAll(take);
  }
  putting.join();
  CHECK(in_order);
  CHECK(next == kMany);
  CHECK(most_told == 1);
}

TEST_CASE("there is room for as many long ends as can be taken at once") {
  LongEnds ends([] {});
  for (uint64_t i = 0; i < LongEnds::kPlaces; ++i) {
    REQUIRE(ends.HasRoomFor(1));
    ends.Put(Numbered(i));
  }
  CHECK_FALSE(ends.HasRoomFor(1));
  uint64_t taken = 0;
  ends.TakeAll([&](const Entry&) { ++taken; });
  CHECK(taken == LongEnds::kPlaces);
  CHECK(ends.HasRoomFor(LongEnds::kPlaces));
}
