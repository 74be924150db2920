// Records that outlive a process, wherever that was interrupted.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "daemon/holder_client/journal.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace onecopy::holder {
namespace {

constexpr uint64_t kHalf = 4096;
constexpr uint64_t kHeadBytes = 4096;
constexpr uint64_t kCountsAt = 24;  // where the head says how many bytes count

std::unique_ptr<Journal> New(uint64_t half_bytes = kHalf) {
  auto made = Journal::Make(half_bytes);
  REQUIRE_OK(made);
  return std::move(*made);
}

// As the next process finds it.
Result<std::unique_ptr<Journal>> Again(const Journal& journal) {
  return Journal::Open(os::UniqueFd::DuplicateOf(journal.fd()));
}

uint64_t CountsOf(const Journal& journal) {
  uint64_t counts = 0;
  REQUIRE(::pread(journal.fd(), &counts, sizeof counts, kCountsAt) == sizeof counts);
  return counts;
}

void Overwrite(const Journal& journal, uint64_t at, const void* bytes, size_t count) {
  REQUIRE(::pwrite(journal.fd(), bytes, count, static_cast<off_t>(at)) ==
          static_cast<ssize_t>(count));
}

TEST_CASE("records are as they were last put, in the next process") {
  auto journal = New();
  CHECK(journal->Put("a", "1").ok());
  CHECK(journal->Put("b", "2").ok());
  CHECK(journal->Put("a", "3").ok());
  CHECK(journal->Put("c", std::string("\0x\xff", 3)).ok());
  CHECK(journal->Put("d", "").ok());
  journal->Erase("b");
  journal->Erase("never there");
  const Journal::Records expected = {{"a", "3"}, {"c", std::string("\0x\xff", 3)}, {"d", ""}};
  CHECK(journal->records() == expected);
  auto again = Again(*journal);
  REQUIRE_OK(again);
  CHECK((*again)->records() == expected);
  CHECK((*again)->unread_bytes() == 0);
  CHECK((*again)->Put("e", "4").ok());
  auto third = Again(**again);
  REQUIRE_OK(third);
  CHECK((*third)->records().size() == 4);
}

TEST_CASE("a process that ends after any byte of a change leaves all changes before it") {
  auto journal = New();
  std::vector<std::pair<uint64_t, Journal::Records>> states = {{0, {}}};
  for (int i = 0; i < 12; ++i) {
    const std::string key = "key-" + std::to_string(i % 5);
    if (i % 4 == 3) {
      journal->Erase(key);
    } else {
      REQUIRE_OK(journal->Put(key, std::string(static_cast<size_t>(7 * i), 'v')));
    }
    states.emplace_back(CountsOf(*journal), journal->records());
  }
  const uint64_t all = CountsOf(*journal);
  size_t complete = 0;
  for (uint64_t bytes = 0; bytes <= all; ++bytes) {
    while (complete + 1 < states.size() && states[complete + 1].first <= bytes) ++complete;
    Overwrite(*journal, kCountsAt, &bytes, sizeof bytes);
    auto again = Again(*journal);
    REQUIRE_OK(again);
    REQUIRE((*again)->records() == states[complete].second);
    REQUIRE((*again)->unread_bytes() == bytes - states[complete].first);
  }
}

TEST_CASE("a damaged record hides itself and what follows, and is told") {
  auto journal = New();
  REQUIRE_OK(journal->Put("a", "1"));
  const uint64_t first = CountsOf(*journal);
  REQUIRE_OK(journal->Put("b", "2"));
  REQUIRE_OK(journal->Put("c", "3"));
  const uint64_t all = CountsOf(*journal);
  for (uint64_t at = first; at < first + 18; ++at) {  // lengths, check, key and value of "b"
    unsigned char byte = 0;
    const auto place = static_cast<off_t>(kHeadBytes + at);
    REQUIRE(::pread(journal->fd(), &byte, 1, place) == 1);
    const unsigned char wrong = byte ^ 0x20;
    Overwrite(*journal, kHeadBytes + at, &wrong, 1);
    Overwrite(*journal, kCountsAt, &all, sizeof all);
    auto again = Again(*journal);
    REQUIRE_OK(again);
    CHECK((*again)->records() == Journal::Records{{"a", "1"}});
    CHECK((*again)->unread_bytes() == all - first);
    // And it goes on behind what is sound.
    REQUIRE_OK((*again)->Put("d", "4"));
    auto third = Again(**again);
    REQUIRE_OK(third);
    CHECK((*third)->records() == Journal::Records{{"a", "1"}, {"d", "4"}});
    CHECK((*third)->unread_bytes() == 0);
    // As before, for the next byte.
    Overwrite(*journal, kHeadBytes + at, &byte, 1);
    Overwrite(*journal, kCountsAt, &first, sizeof first);
    journal = std::move(*Again(*journal));
    REQUIRE_OK(journal->Put("b", "2"));
    REQUIRE_OK(journal->Put("c", "3"));
  }
}

TEST_CASE("many changes need no more room than what counts at the end") {
  auto journal = New();
  std::mt19937_64 random(7);
  Journal::Records expected;
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "key-" + std::to_string(random() % 10);
    if (random() % 3 == 0) {
      journal->Erase(key);
      expected.erase(key);
    } else {
      const std::string value(random() % 100, static_cast<char>('a' + random() % 26));
      REQUIRE_OK(journal->Put(key, value));
      expected[key] = value;
    }
    if (i % 500 != 0) continue;
    auto again = Again(*journal);
    REQUIRE_OK(again);
    REQUIRE((*again)->records() == expected);
  }
  CHECK(journal->records() == expected);
}

TEST_CASE("where there is no room a change is refused, and nothing is lost") {
  auto journal = New();
  Journal::Records expected;
  Status refused;
  for (int i = 0; refused.ok(); ++i) {
    const std::string key = "key-" + std::to_string(i);
    refused = journal->Put(key, std::string(100, 'x'));
    if (refused.ok()) expected[key] = std::string(100, 'x');
  }
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK(expected.size() > 10);
  CHECK(journal->records() == expected);
  // What makes room makes it, although the erasure itself may have none.
  while (expected.size() > 5) {
    journal->Erase(expected.begin()->first);
    expected.erase(expected.begin());
  }
  REQUIRE_OK(journal->Put("more", std::string(300, 'y')));
  expected["more"] = std::string(300, 'y');
  auto again = Again(*journal);
  REQUIRE_OK(again);
  CHECK((*again)->records() == expected);
}

TEST_CASE("minor records leave room for others, and what is erased is gone however full it is") {
  auto journal = New();
  Status refused;
  int minor = 0;
  while (refused.ok()) {
    refused = journal->Put("minor-" + std::to_string(minor++), std::string(50, 'x'), 4);
  }
  int major = 0;
  for (refused = OkStatus(); refused.ok();) {
    refused = journal->Put("major-" + std::to_string(major++), std::string(50, 'x'));
  }
  CHECK(major > 5);
  CHECK(journal->Put("major-0", std::string(51, 'y')).ok());  // in its own place
  for (int i = 0; i < major; ++i) journal->Erase("major-" + std::to_string(i));
  CHECK(journal->records().size() == static_cast<size_t>(minor - 1));
  auto again = Again(*journal);
  REQUIRE_OK(again);
  CHECK((*again)->records() == journal->records());
  CHECK((*again)->Put("minor", std::string(50, 'x'), 4).code() == Code::kResourceExhausted);
  CHECK((*again)->Put("major", std::string(500, 'x')).ok());
}

TEST_CASE("what is no journal of this program is refused with its reason") {
  const auto refusal = [](os::UniqueFd fd) {
    const Status status = Journal::Open(std::move(fd)).status();
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK(status.reason() == reasons::kBadHandle);
    return status.message();
  };
  CHECK(refusal(os::UniqueFd(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING)))
            .find("sealed") != std::string::npos);
  CHECK(refusal(os::UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))).find("sealed") !=
        std::string::npos);
  CHECK(refusal(std::move(*os::SealedMemfd("short", 100))).find("100") != std::string::npos);
  CHECK(refusal(std::move(*os::SealedMemfd("other", 8192))).find("another kind") !=
        std::string::npos);
  auto journal = New();
  REQUIRE_OK(journal->Put("a", "1"));
  const uint64_t version = 2;
  Overwrite(*journal, 8, &version, sizeof version);
  CHECK(refusal(os::UniqueFd::DuplicateOf(journal->fd())).find("version 2") != std::string::npos);
  const uint64_t right = 1;
  const uint64_t half = kHalf * 100;
  Overwrite(*journal, 8, &right, sizeof right);
  Overwrite(*journal, 16, &half, sizeof half);
  CHECK(refusal(os::UniqueFd::DuplicateOf(journal->fd())).find("damaged") != std::string::npos);
}

TEST_CASE("a head that counts more than there is leaves nothing, and is told") {
  auto journal = New();
  REQUIRE_OK(journal->Put("a", "1"));
  const uint64_t beyond = kHalf + 1;
  Overwrite(*journal, kCountsAt, &beyond, sizeof beyond);
  auto again = Again(*journal);
  REQUIRE_OK(again);
  CHECK((*again)->records().empty());
  CHECK((*again)->unread_bytes() == beyond);
  REQUIRE_OK((*again)->Put("b", "2"));
  auto third = Again(**again);
  REQUIRE_OK(third);
  CHECK((*third)->records() == Journal::Records{{"b", "2"}});
}

}  // namespace
}  // namespace onecopy::holder
