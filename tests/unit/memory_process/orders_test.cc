// Both ends of a client's orders, and what a client may write there.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "transport/core/base/mutex.h"
#include "transport/orders/client_end.h"
#include "transport/orders/daemon_end.h"

namespace onecopy::orders {
namespace {

// Both ends in one process.
struct Ends {
  Ends() {
    auto made = DaemonEnd::Make();
    REQUIRE_OK(made);
    daemon = std::make_unique<DaemonEnd>(std::move(*made));
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    wake = os::UniqueFd(pair[0]);
    memory = os::UniqueFd::DuplicateOf(daemon->memory());
    auto opened = ClientEnd::Open(memory, os::UniqueFd(pair[1]));
    REQUIRE_OK(opened);
    client = std::move(*opened);
    auto mapped = os::MapShared(memory.get(), sizeof(Shared));
    REQUIRE_OK(mapped);
    mapping = std::move(*mapped);
  }

  // What a hostile client writes to.
  Shared& shared() { return *reinterpret_cast<Shared*>(mapping.data()); }
  uint64_t Place(uint64_t region = 1) {
    const auto number = daemon->Place({.region = region, .bytes = 10});
    REQUIRE(number.has_value());
    return *number;
  }
  // Blocks until the client has sent its byte.
  void AwaitByte() {
    char byte = 0;
    REQUIRE(::read(wake.get(), &byte, 1) == 1);
  }

  std::unique_ptr<DaemonEnd> daemon;
  std::unique_ptr<ClientEnd> client;
  os::UniqueFd wake;
  os::UniqueFd memory;
  os::Mapping mapping;
};

TEST_CASE("an order arrives whole, once it has been published, and its answer comes back") {
  Ends ends;
  const Order order{.way = Way::kOutOfSlab,
                    .region = UINT64_MAX,
                    .offset = uint64_t{1} << 60,
                    .slab = 3,
                    .bytes = 4,
                    .region_stride = 5,
                    .slab_stride = 6,
                    .count = uint64_t{1} << 40};
  const auto number = ends.daemon->Place(order);
  REQUIRE(number.has_value());
  CHECK_FALSE(ends.client->Take());
  ends.daemon->Publish();
  CHECK(ends.client->HasMore());
  const auto taken = ends.client->Take();
  REQUIRE(taken.has_value());
  CHECK_FALSE(ends.client->Take());
  CHECK(taken->number == *number);
  CHECK(taken->way == order.way);
  CHECK(taken->region == order.region);
  CHECK(taken->offset == order.offset);
  CHECK(taken->slab == order.slab);
  CHECK(taken->bytes == order.bytes);
  CHECK(taken->region_stride == order.region_stride);
  CHECK(taken->slab_stride == order.slab_stride);
  CHECK(taken->count == order.count);
  CHECK(ends.daemon->Sleep());
  ends.client->Answer(*taken, Outcome::kUnmapped);
  ends.AwaitByte();
  const auto answer = ends.daemon->Reap();
  REQUIRE(answer.has_value());
  CHECK(answer->number == *number);
  CHECK(answer->outcome == Outcome::kUnmapped);
  CHECK_FALSE(ends.daemon->Reap());
}

TEST_CASE("answers come in any order, each once, and places are used again") {
  Ends ends;
  for (int round = 0; round < 5; ++round) {
    std::vector<Order> taken;
    for (uint64_t i = 0; i < kOrders; ++i) ends.Place();
    CHECK_FALSE(ends.daemon->Place({}));  // until the oldest has been answered
    ends.daemon->Publish();
    while (const auto order = ends.client->Take()) taken.push_back(*order);
    REQUIRE(taken.size() == kOrders);
    for (size_t i = taken.size(); i-- > 1;) ends.client->Answer(taken[i], Outcome::kCopied);
    std::set<uint64_t> seen;
    while (const auto answer = ends.daemon->Reap()) seen.insert(answer->number);
    CHECK(seen.size() == kOrders - 1);
    CHECK_FALSE(ends.daemon->Place({}));
    CHECK(ends.daemon->Sleep());
    ends.client->Answer(taken[0], Outcome::kCopied);
    CHECK_FALSE(ends.daemon->Sleep());  // there is something to be read
    const auto last = ends.daemon->Reap();
    REQUIRE(last.has_value());
    CHECK(last->number == taken[0].number);
  }
}

TEST_CASE("threads share the orders, and nothing is slept over") {
  constexpr uint64_t kMany = 20'000;
  Ends ends;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> done{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const auto order = ends.client->Take();
        if (!order) {
          ends.client->Sleep(stop, std::chrono::hours(1));
          continue;
        }
        ++done;
        ends.client->Answer(*order, Outcome::kCopied);
      }
    });
  }
  std::set<uint64_t> answered;
  uint64_t placed = 0;
  while (answered.size() < kMany) {
    while (placed < kMany && ends.daemon->Place({.bytes = 1})) ++placed;
    ends.daemon->Publish();
    while (const auto answer = ends.daemon->Reap()) answered.insert(answer->number);
    const bool more = placed < kMany && placed - answered.size() < kOrders / 2;
    if (!more && answered.size() < kMany && ends.daemon->Sleep()) ends.AwaitByte();
  }
  stop = true;
  ends.client->WakeAll();
  for (std::thread& thread : threads) thread.join();
  CHECK(done == kMany);
}

TEST_CASE("what is given up is not begun, and the end is told") {
  Ends ends;
  ends.Place();
  ends.daemon->Publish();
  const auto order = ends.client->Take();
  REQUIRE(order.has_value());
  CHECK_FALSE(ends.client->IsVoid(*order));
  ends.daemon->VoidAll();
  CHECK(ends.client->IsVoid(*order));
  ends.Place();
  ends.daemon->Publish();
  const auto next = ends.client->Take();
  REQUIRE(next.has_value());
  CHECK_FALSE(ends.client->IsVoid(*next));
  CHECK_FALSE(ends.client->ended());
  ends.daemon->End();
  CHECK(ends.client->ended());
  const std::atomic<bool> stop{false};
  ends.client->Sleep(stop, std::chrono::hours(1));  // does not
}

TEST_CASE("whatever a client writes is no answer to what was not asked") {
  Ends ends;
  const uint64_t number = ends.Place();
  ends.daemon->Publish();
  Shared& shared = ends.shared();
  const std::vector<uint64_t> nonsense = {0, UINT64_MAX, uint64_t{1} << 63,
                                          AnswerWord(number + 1, Outcome::kCopied),
                                          AnswerWord(number + kOrders, Outcome::kCopied)};
  for (const uint64_t word : nonsense) {
    for (auto& answer : shared.answers) answer.store(word);
    CHECK_FALSE(ends.daemon->Reap());
    CHECK(ends.daemon->Sleep());
  }
  // The daemon's own words are never read back.
  shared.ordered.store(UINT64_MAX);
  shared.void_before.store(UINT64_MAX);
  shared.ended.store(1);
  shared.asleep.store(7);
  shared.sleepers.store(UINT32_MAX);
  for (auto& entry : shared.entries) {
    for (auto& word : entry.words) word.store(UINT64_MAX);
  }
  shared.answers[number % kOrders].store((number + 1) << 8 | 0xee);  // an outcome that is none
  const auto answer = ends.daemon->Reap();
  REQUIRE(answer.has_value());
  CHECK(answer->number == number);
  CHECK(answer->outcome == Outcome::kOutOfRegion);
  for (uint64_t i = 0; i < kOrders; ++i) ends.Place();
  ends.daemon->Publish();
  CHECK_FALSE(ends.daemon->Reap());
}

TEST_CASE("memory that is laid out otherwise is refused") {
  Ends ends;
  const auto open = [&](const os::UniqueFd& memory) {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    const os::UniqueFd other(pair[0]);
    return ClientEnd::Open(memory, os::UniqueFd(pair[1])).status();
  };
  CHECK(open(ends.memory).ok());
  ends.shared().layout.store(kLayout + 1);
  CHECK(open(ends.memory).code() == Code::kUnimplemented);
  const auto small = os::SealedMemfd("test", 100);
  REQUIRE_OK(small);
  CHECK(open(*small).code() == Code::kUnimplemented);
}

}  // namespace
}  // namespace onecopy::orders
