// A pool's blocks: found, cut, joined, ordered by streams, given back, and never two at one place.
#include "client/lib/pool/pool_core.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using client::PoolCore;
using client::PoolCoreOptions;
using client::SlabSource;
using client::StreamOrder;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Slabs of malloc, at most so many bytes.
class HeapSlabs final : public SlabSource {
 public:
  explicit HeapSlabs(uint64_t most = UINT64_MAX) : most_(most) {}
  ~HeapSlabs() override { CHECK(slabs_.empty()); }

  Result<Slab> Make(uint64_t bytes) override {
    asked.push_back(bytes);
    if (bytes > most_ - held_) {
      return Status(Code::kResourceExhausted, reasons::kQuota, "no more slabs here");
    }
    held_ += bytes;
    auto* const data = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
    slabs_[data] = bytes;
    return Slab{data, bytes};
  }
  Status Free(const Slab& slab) override {
    REQUIRE(slabs_.erase(slab.data) == 1);
    held_ -= slab.bytes;
    std::free(slab.data);
    return OkStatus();
  }

  std::vector<uint64_t> asked;

 private:
  const uint64_t most_;
  uint64_t held_ = 0;
  std::map<std::byte*, uint64_t> slabs_;
};

// Streams below 100 can be followed; writes down what was asked of it.
class NotedOrder final : public StreamOrder {
 public:
  Status Follow(StreamHandle later, StreamHandle earlier) override {
    if (earlier >= 100) return {Code::kFailedPrecondition, reasons::kStreamCapturing, "a graph"};
    follows.emplace_back(later, earlier);
    return follow;
  }
  Status Wait(StreamHandle stream) override {
    waits.push_back(stream);
    return stream == refused ? wait : OkStatus();
  }
  bool HasEnded(StreamHandle stream) override { return ended.contains(stream); }

  std::vector<std::pair<StreamHandle, StreamHandle>> follows;
  std::vector<StreamHandle> waits;
  Status follow;
  StreamHandle refused = 0;
  Status wait;
  std::set<StreamHandle> ended;
};

struct Fixture {
  explicit Fixture(PoolCoreOptions options = {.slab_bytes = kMiB}, uint64_t most = UINT64_MAX)
      : slabs(most), pool(options, slabs, order) {}

  std::byte* Have(uint64_t bytes, StreamHandle stream = 0) {
    Result<void*> made = pool.Allocate(bytes, stream);
    INFO(made.status());
    REQUIRE(made.ok());
    CHECK(reinterpret_cast<uintptr_t>(*made) % kPoolAlignment == 0);
    CheckTables();
    return static_cast<std::byte*>(*made);
  }
  void Give(void* pointer, StreamHandle stream = 0, uint64_t bytes = 0) {
    const Status done = pool.Deallocate(pointer, bytes, stream);
    INFO(done);
    CHECK(done.ok());
    CheckTables();
  }
  void CheckTables() {
    const Status tables = pool.Check();
    INFO(tables);
    REQUIRE(tables.ok());
  }

  HeapSlabs slabs;
  NotedOrder order;
  PoolCore pool;
};

}  // namespace

TEST_CASE("a pool gives aligned memory that does not overlap") {
  Fixture fixture;
  std::map<std::byte*, uint64_t> had;
  for (const uint64_t bytes : {1, 255, 256, 257, 4096, 100'000, 3'000'000}) {
    std::byte* const at = fixture.Have(bytes);
    std::memset(at, 1, bytes);
    had[at] = bytes;
  }
  const std::byte* end = nullptr;
  for (const auto& [at, bytes] : had) {
    CHECK(at >= end);
    end = at + bytes;
  }
  const PoolStatistics now = fixture.pool.statistics();
  CHECK(now.blocks_in_use == 7);
  CHECK(now.bytes_asked == 3'104'865);
  CHECK(now.bytes_in_use >= now.bytes_asked);
  CHECK(now.slabs == 2);
  for (const auto& [at, bytes] : had) fixture.Give(at, 0, bytes);
  CHECK(fixture.pool.statistics().bytes_in_use == 0);
  CHECK(fixture.pool.statistics().peak_bytes == now.bytes_in_use);
}

TEST_CASE("what the same stream freed last is had again at once") {
  Fixture fixture;
  std::byte* const one = fixture.Have(65536, 7);
  fixture.Give(one, 7);
  CHECK(fixture.Have(65536, 7) == one);
  CHECK(fixture.pool.statistics().from_recent == 1);
  CHECK(fixture.order.follows.empty());
  CHECK(fixture.order.waits.empty());
}

TEST_CASE("free neighbours become one block again") {
  Fixture fixture;
  std::vector<std::byte*> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(fixture.Have(kMiB / 4));
  for (const int i : {2, 0, 3, 1}) fixture.Give(parts[i]);
  CHECK(fixture.Have(kMiB) == parts[0]);
  CHECK(fixture.slabs.asked.size() == 1);
}

TEST_CASE("the smallest block that fits is taken, and of those the lowest") {
  Fixture fixture;
  std::vector<std::byte*> parts;
  for (const uint64_t bytes : {3072, 256, 1024, 256, 2048, 256, 1024, 256}) {
    parts.push_back(fixture.Have(bytes));
  }
  for (const int i : {0, 2, 4, 6}) fixture.Give(parts[i]);
  static_cast<void>(fixture.pool.statistics());  // what was freed last is joined, too
  CHECK(fixture.Have(1000) == parts[2]);
  CHECK(fixture.Have(900) == parts[6]);
  CHECK(fixture.Have(512) == parts[4]);
  CHECK(fixture.Have(2048) == parts[0]);
}

TEST_CASE("a stream that can be followed hands over in order, without a wait of the host") {
  Fixture fixture({.slab_bytes = kMiB, .limit_bytes = kMiB});
  std::byte* const all = fixture.Have(kMiB, 1);
  fixture.Give(all, 1);
  CHECK(fixture.Have(kMiB, 2) == all);
  CHECK(fixture.order.follows == std::vector<std::pair<StreamHandle, StreamHandle>>{{2, 1}});
  CHECK(fixture.order.waits.empty());
  CHECK(fixture.pool.statistics().from_others == 1);
}

TEST_CASE("what cannot be followed is taken after a wait, once there is no room left") {
  Fixture fixture({.slab_bytes = kMiB, .limit_bytes = 2 * kMiB});
  std::byte* const first = fixture.Have(kMiB, 1000);
  fixture.Give(first, 1000);
  std::byte* const second = fixture.Have(kMiB, 2000);
  CHECK(second != first);
  CHECK(fixture.order.waits.empty());
  CHECK(fixture.Have(kMiB, 3000) == first);
  CHECK(fixture.order.waits == std::vector<StreamHandle>{1000});
  CHECK(fixture.pool.statistics().synchronized == 1);
  CHECK(fixture.order.follows.empty());
}

TEST_CASE("what shall be idle is free for all, or has ended, or is new") {
  Fixture fixture({.slab_bytes = kMiB, .limit_bytes = 2 * kMiB});
  const auto idle = [&](uint64_t bytes) {
    const Result<void*> made = fixture.pool.AllocateIdle(bytes);
    INFO(made.status());
    REQUIRE(made.ok());
    fixture.CheckTables();
    return static_cast<std::byte*>(*made);
  };
  std::byte* const first = fixture.Have(kMiB / 4, 7);
  std::byte* const second = fixture.Have(kMiB / 4, 8);
  fixture.Give(first, 7);
  fixture.Give(second, 8);
  // As long as there is something that nobody has had, not what a stream gave back.
  fixture.order.ended = {7, 8};
  CHECK(idle(kMiB / 2) == second + kMiB / 4);
  fixture.order.ended = {8};
  CHECK(idle(kMiB / 8) == second);
  CHECK(idle(kMiB / 8) == second + kMiB / 8);
  CHECK(fixture.slabs.asked.size() == 1);
  // The other stream is not waited for as long as there can be a slab.
  fixture.order.ended = {};
  std::byte* const fresh = idle(kMiB);
  CHECK((fresh < first || fresh >= first + kMiB));
  CHECK(fixture.slabs.asked.size() == 2);
  CHECK(fixture.order.waits.empty());
  CHECK(idle(kMiB / 4) == first);
  CHECK(fixture.order.waits == std::vector<StreamHandle>{7});
  CHECK(fixture.pool.statistics().synchronized == 1);
  CHECK(fixture.order.follows.empty());
  CHECK(fixture.pool.AllocateIdle(kMiB).status().reason() == reasons::kQuota);
  CHECK(fixture.pool.AllocateIdle(0).status().reason() == reasons::kBadSize);
  CHECK(fixture.pool.AllocateIdle(UINT64_MAX).status().reason() == reasons::kNoMemory);
  CHECK(fixture.pool.statistics().failures == 3);
}

TEST_CASE("where an order cannot be had, the block stays where it was") {
  Fixture fixture({.slab_bytes = kMiB, .limit_bytes = kMiB});
  fixture.order.follow = Status(Code::kInternal, reasons::kDriverFailed, "no event");
  std::byte* const all = fixture.Have(kMiB, 1);
  fixture.Give(all, 1);
  SECTION("and a wait does instead") {
    CHECK(fixture.Have(kMiB, 2) == all);
    CHECK(fixture.order.waits == std::vector<StreamHandle>{1});
  }
  SECTION("and it is refused where a wait fails, too, and stays the stream's") {
    fixture.order.refused = 1;
    fixture.order.wait = Status(Code::kInternal, reasons::kDriverFailed, "a capture");
    const Result<void*> refused = fixture.pool.Allocate(kMiB, 2);
    REQUIRE(!refused.ok());
    CHECK(refused.status().code() == Code::kResourceExhausted);
    CHECK(refused.status().message().find("a capture") != std::string::npos);
    CHECK(fixture.Have(kMiB, 1) == all);
  }
}

TEST_CASE("a stream that is released leaves what it freed to all") {
  Fixture fixture({.slab_bytes = kMiB, .limit_bytes = kMiB});
  std::byte* const all = fixture.Have(kMiB, 1000);
  fixture.Give(all, 1000);
  CHECK(fixture.pool.ReleaseStream(1000).ok());
  CHECK(fixture.order.waits == std::vector<StreamHandle>{1000});
  fixture.CheckTables();
  CHECK(fixture.Have(kMiB, 2000) == all);
  CHECK(fixture.order.waits.size() == 1);
  CHECK(fixture.pool.ReleaseStream(4000).ok());  // never heard of
}

TEST_CASE("free blocks of two streams are not joined until both have been waited for") {
  Fixture fixture({.slab_bytes = kMiB, .limit_bytes = kMiB});
  std::byte* const low = fixture.Have(kMiB / 2, 1);
  std::byte* const high = fixture.Have(kMiB / 2, 2);
  fixture.Give(low, 1);
  fixture.Give(high, 2);
  CHECK(fixture.pool.statistics().largest_free == kMiB / 2);
  CHECK(fixture.Have(kMiB, 1) == low);
  CHECK(std::set<StreamHandle>(fixture.order.waits.begin(), fixture.order.waits.end()) ==
        std::set<StreamHandle>{1, 2});
  CHECK(fixture.pool.statistics().synchronized == 1);
}

TEST_CASE("what cannot be waited for holds up nothing else, and its slab stays") {
  Fixture fixture({.slab_bytes = kMiB, .limit_bytes = 2 * kMiB});
  fixture.order.refused = 1000;
  fixture.order.wait = Status(Code::kFailedPrecondition, reasons::kStreamCapturing, "a graph");
  std::byte* const graphs = fixture.Have(kMiB, 1000);
  std::byte* const plain = fixture.Have(kMiB, 2000);
  fixture.Give(graphs, 1000);
  fixture.Give(plain, 2000);
  CHECK(fixture.Have(kMiB, 3000) == plain);
  fixture.Give(plain, 3000);
  const Result<uint64_t> trimmed = fixture.pool.Trim(0);
  REQUIRE(trimmed.ok());
  CHECK(*trimmed == kMiB);
  CHECK(*fixture.pool.Trim(0) == 0);
  fixture.CheckTables();
  CHECK(fixture.Have(kMiB, 1000) == graphs);
  fixture.Give(graphs, 1000);
  fixture.order.wait = Status(Code::kInternal, reasons::kDriverFailed, "the driver");
  CHECK(fixture.pool.Trim(0).status().message() == "the driver");
  fixture.order.refused = 0;
  CHECK(*fixture.pool.Trim(0) == kMiB);
}

TEST_CASE("an exhausted pool says what it has, and goes on") {
  Fixture fixture({.slab_bytes = kMiB, .limit_bytes = 2 * kMiB});
  std::byte* const one = fixture.Have(kMiB);
  const std::byte* const two = fixture.Have(kMiB);
  CHECK(two != nullptr);
  const Result<void*> more = fixture.pool.Allocate(1, 0);
  REQUIRE(!more.ok());
  CHECK(more.status().code() == Code::kResourceExhausted);
  CHECK(more.status().reason() == reasons::kQuota);
  CHECK(more.status().message().find("2 MiB of at most 2 MiB") != std::string::npos);
  CHECK(!more.status().remedy().empty());
  CHECK(fixture.pool.statistics().failures == 1);
  fixture.Give(one);
  CHECK(fixture.Have(1) == one);
}

TEST_CASE("the source's refusal is the pool's") {
  Fixture fixture({.slab_bytes = kMiB}, kMiB + 8192);
  fixture.Have(kMiB);
  fixture.Have(8192);  // too little for a whole slab, enough for one of its own
  CHECK(fixture.slabs.asked == std::vector<uint64_t>{kMiB, kMiB, 8192});
  const Result<void*> refused = fixture.pool.Allocate(4096, 0);
  REQUIRE(!refused.ok());
  CHECK(refused.status().message() == "no more slabs here");
}

TEST_CASE("slabs that are free make room for one that is larger") {
  Fixture fixture({.slab_bytes = kMiB, .limit_bytes = 3 * kMiB});
  for (int i = 0; i < 3; ++i) CHECK(fixture.pool.Grow(kMiB).ok());
  CHECK(fixture.pool.statistics().slabs == 3);
  fixture.Have(2 * kMiB);
  CHECK(fixture.pool.statistics().bytes_reserved <= 3 * kMiB);
}

TEST_CASE("a pool that is trimmed keeps what is used, and as much as it was told to") {
  Fixture fixture;
  std::vector<std::byte*> all;
  for (int i = 0; i < 4; ++i) all.push_back(fixture.Have(kMiB));
  for (const int i : {0, 1, 3}) fixture.Give(all[i]);
  const Result<uint64_t> first = fixture.pool.Trim(3 * kMiB);
  REQUIRE(first.ok());
  CHECK(*first == kMiB);
  const Result<uint64_t> second = fixture.pool.Trim(0);
  REQUIRE(second.ok());
  CHECK(*second == 2 * kMiB);
  fixture.CheckTables();
  CHECK(fixture.pool.statistics().bytes_reserved == kMiB);
  CHECK(fixture.pool.statistics().trimmed == 3);
  std::memset(all[2], 1, kMiB);
  fixture.Give(all[2]);
}

TEST_CASE("what is not allocated cannot be given back, and nothing changes") {
  Fixture fixture;
  std::byte* const one = fixture.Have(1000);
  int elsewhere = 0;
  const auto refused = [&](void* pointer, uint64_t bytes, std::string_view reason,
                           const std::string& text) {
    const Status done = fixture.pool.Deallocate(pointer, bytes, 0);
    CHECK(done.code() == Code::kInvalidArgument);
    CHECK(done.reason() == reason);
    INFO(done);
    CHECK(done.message().find(text) != std::string::npos);
    fixture.CheckTables();
  };
  refused(one + 256, 0, reasons::kBadPointer, "256 bytes after its beginning");
  refused(one + 1024, 0, reasons::kBadPointer, "is already free");
  refused(&elsewhere, 0, reasons::kBadPointer, "does not belong to this pool");
  refused(one, 999, reasons::kSizeMismatch, "1000 bytes");
  CHECK(fixture.pool.statistics().blocks_in_use == 1);
  fixture.Give(one, 0, 1000);
  refused(one, 1000, reasons::kBadPointer, "freed twice");
  CHECK(fixture.pool.statistics().failures == 5);
  fixture.Give(nullptr);
  CHECK(fixture.pool.Allocate(0, 0).status().reason() == reasons::kBadSize);
  CHECK(fixture.pool.Allocate(UINT64_MAX, 0).status().reason() == reasons::kNoMemory);
  CHECK(fixture.pool.Allocate(UINT64_MAX - 4096, 0).status().code() == Code::kResourceExhausted);
}

TEST_CASE("a byte's block and slab are found") {
  Fixture fixture;
  const std::byte* const before = fixture.Have(1000);
  const std::byte* const one = fixture.Have(1000);
  const auto place = fixture.pool.Find(one + 999);
  REQUIRE(place);
  CHECK(place->block == one);
  CHECK(place->block_bytes == 1000);
  CHECK(place->slab.data == before);
  CHECK(place->slab.bytes == kMiB);
  CHECK(!fixture.pool.Find(one + 1000));  // what was not asked for
  CHECK(!fixture.pool.Find(before - 1));
  CHECK(!fixture.pool.Find(one + 2 * kMiB));
}

// Against a reference that knows only what is allocated: no two overlap, bytes stay, counts agree.
TEST_CASE("a pool agrees with a simple model over random work") {
  const auto seed = GENERATE(range(1, 9));
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  Fixture fixture({.slab_bytes = 256 * 1024, .limit_bytes = 4 * kMiB});
  struct Entry {
    uint64_t bytes;
    unsigned char fill;
  };
  std::map<std::byte*, Entry> model;
  uint64_t asked = 0;
  uint64_t refusals = 0;
  const StreamHandle streams[] = {0, 1, 2, 1000, 2000};
  for (int step = 0; step < 4000; ++step) {
    const StreamHandle stream = streams[random() % 5];
    const uint64_t action = random() % 100;
    if (action < 52) {
      const uint64_t bytes = 1 + random() % (action < 4 ? kMiB : action < 20 ? 65536 : 2048);
      const Result<void*> made = fixture.pool.Allocate(bytes, stream);
      if (!made.ok()) {
        REQUIRE(made.status().reason() == reasons::kQuota);
        ++refusals;
        continue;
      }
      auto* const at = static_cast<std::byte*>(*made);
      const auto next = model.lower_bound(at);
      REQUIRE((next == model.end() || at + bytes <= next->first));
      REQUIRE(
          (next == model.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= at));
      const auto fill = static_cast<unsigned char>(random());
      std::memset(at, fill, bytes);
      model[at] = {bytes, fill};
      asked += bytes;
    } else if (action < 97 && !model.empty()) {
      auto entry = std::next(model.begin(), static_cast<long>(random() % model.size()));
      const auto& [bytes, fill] = entry->second;
      REQUIRE(static_cast<unsigned char>(entry->first[0]) == fill);
      REQUIRE(static_cast<unsigned char>(entry->first[bytes - 1]) == fill);
      REQUIRE(fixture.pool.Deallocate(entry->first, random() % 2 == 0 ? bytes : 0, stream).ok());
      asked -= bytes;
      model.erase(entry);
    } else if (action == 97) {
      REQUIRE(fixture.pool.Trim(random() % (4 * kMiB)).ok());
    } else if (action == 98) {
      REQUIRE(fixture.pool.ReleaseStream(stream).ok());
    }
    const Status tables = fixture.pool.Check();
    INFO(tables);
    REQUIRE(tables.ok());
  }
  const PoolStatistics now = fixture.pool.statistics();
  CHECK(now.bytes_asked == asked);
  CHECK(now.blocks_in_use == model.size());
  CHECK(now.failures == refusals);
  CHECK(now.bytes_reserved <= 4 * kMiB);
  for (const auto& [at, entry] : model) fixture.Give(at, 0, entry.bytes);
  REQUIRE(fixture.pool.Trim(0).ok());
  CHECK(fixture.pool.statistics().bytes_reserved == 0);
}

TEST_CASE("many threads share a pool") {
  Fixture fixture({.slab_bytes = kMiB, .limit_bytes = 16 * kMiB});
  std::atomic<int> wrong{0};
  const auto work = [&](unsigned index) {
    std::mt19937_64 random(index);
    std::vector<std::pair<unsigned char*, uint64_t>> mine;
    for (int step = 0; step < 3000; ++step) {
      if (mine.size() < 16 && random() % 2 == 0) {
        const uint64_t bytes = 1 + random() % 32768;
        const Result<void*> made = fixture.pool.Allocate(bytes, index);
        if (!made.ok()) {
          ++wrong;
          continue;
        }
        auto* const at = static_cast<unsigned char*>(*made);
        at[0] = at[bytes - 1] = static_cast<unsigned char>(index);
        mine.emplace_back(at, bytes);
      } else if (!mine.empty()) {
        const auto [at, bytes] = mine.back();
        mine.pop_back();
        if (at[0] != index || at[bytes - 1] != index) ++wrong;
        if (!fixture.pool.Deallocate(at, bytes, index).ok()) ++wrong;
      }
    }
    for (const auto& [at, bytes] : mine) {
      if (!fixture.pool.Deallocate(at, bytes, index).ok()) ++wrong;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned index = 1; index <= 4; ++index) threads.emplace_back(work, index);
  }
  CHECK(wrong == 0);
  fixture.CheckTables();
  CHECK(fixture.pool.statistics().blocks_in_use == 0);
}
