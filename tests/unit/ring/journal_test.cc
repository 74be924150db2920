// What the journal keeps, also while it is written.
#include <thread>

#include "daemon/ring/journal.h"
#include "tests/support/catch.h"

using namespace onecopy::ring;

namespace {

// Every field follows from the number.
Entry EntryOf(uint64_t number) {
  const Clock::time_point zero{};
  Entry entry{.number = number,
              .route = number + 1,
              .from = number + 2,
              .to = number + 3,
              .bytes = number + 4,
              .from_bytes = number + 7,
              .to_bytes = number + 8,
              .pieces = number + 9,
              .taken = zero + std::chrono::nanoseconds(number),
              .begun = zero + std::chrono::nanoseconds(number + 5),
              .ended = zero + std::chrono::nanoseconds(number + 6)};
  // Every other one has a sum.
  if (number % 2 == 0) entry.sum.emplace().fill(static_cast<std::byte>(number / 2));
  return entry;
}

bool Whole(const Entry& entry) {
  const Entry right = EntryOf(entry.number);
  return entry.route == right.route && entry.from == right.from && entry.to == right.to &&
         entry.bytes == right.bytes && entry.from_bytes == right.from_bytes &&
         entry.to_bytes == right.to_bytes && entry.pieces == right.pieces &&
         entry.sum == right.sum && entry.taken == right.taken && entry.begun == right.begun &&
         entry.ended == right.ended;
}

}  // namespace

TEST_CASE("the journal has the last entries, and no others") {
  Journal journal;
  CHECK_FALSE(journal.Read(0));
  CHECK_FALSE(journal.NumberIn(0));
  for (uint64_t number = 0; number < 2 * Journal::kEntries + 5; ++number) {
    journal.Write(EntryOf(number));
  }
  CHECK_FALSE(journal.Read(0));
  CHECK_FALSE(journal.Read(Journal::kEntries + 4));
  for (uint64_t number = Journal::kEntries + 5; number < 2 * Journal::kEntries + 5; ++number) {
    const auto entry = journal.Read(number);
    REQUIRE(entry);
    CHECK(Whole(*entry));
  }
  CHECK(journal.NumberIn(4) == 2 * Journal::kEntries + 4);
  CHECK(journal.succeeded() == 2 * Journal::kEntries + 5);
  CHECK(journal.failed() == 0);
}

TEST_CASE("whoever reads while it is written gets whole entries or none") {
  Journal journal;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t number = 0; !stop; ++number) journal.Write(EntryOf(number * Journal::kEntries));
  });
  uint64_t read = 0;
  bool whole = true;
  while (read < 10'000) {
    const auto number = journal.NumberIn(0);
    if (!number) continue;
    if (const auto entry = journal.Read(*number)) {
      ++read;
      whole = whole && Whole(*entry);
    }
  }
  stop = true;
  writer.join();
  CHECK(whole);
}
