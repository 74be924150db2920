// What the daemon has promised of memory, and what it costs to promise more.
#include "transport/memory/host/promises.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "onecopy/size.h"
#include "tests/support/catch.h"

namespace promises_test {
namespace {

using onecopy::host::Promise;
using onecopy::host::Promises;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kKept = 32 * kMiB;  // for the daemon itself

uint64_t available = 0;
int looks = 0;
std::map<int, uint64_t> given;  // bytes of memory that a file has got

uint64_t Available() { return available; }
uint64_t Missing(int fd, uint64_t bytes) {
  ++looks;
  const auto found = given.find(fd);
  return found == given.end() ? bytes : bytes - std::min(bytes, found->second);
}

std::shared_ptr<Promises> Made(uint64_t bytes) {
  available = bytes + kKept;
  looks = 0;
  given.clear();
  return std::make_shared<Promises>(&Available, &Missing);
}

}  // namespace

TEST_CASE("the 10,000th promise looks at no more files than the 10th") {
  const auto promises = Made(10'000 * kMiB);
  std::vector<std::unique_ptr<Promise>> kept;
  const auto looks_of_one = [&] {
    const int before = looks;
    auto made = promises->Make(static_cast<int>(kept.size()), kMiB);
    REQUIRE(made.ok());
    kept.push_back(*std::move(made));
    return looks - before;
  };
  for (int i = 0; i < 9; ++i) looks_of_one();
  const int tenth = looks_of_one();
  while (kept.size() < 9'999) looks_of_one();
  CHECK(looks_of_one() == tenth);
}

TEST_CASE("what files have got since counts before anything is refused, and once") {
  const auto promises = Made(100 * kMiB);
  std::vector<std::unique_ptr<Promise>> kept;
  for (int i = 0; i < 100; ++i) kept.push_back(*promises->Make(i, kMiB));
  const auto refused = promises->Make(1000, kMiB);
  CHECK(refused.status().reason() == "NO_MEMORY");
  CHECK(refused.status().message().find(onecopy::FormatBytes(100 * kMiB)) != std::string::npos);
  // Half of them are touched, and somebody else gives as much back.
  for (int i = 0; i < 50; ++i) given[i] = kMiB;
  looks = 0;
  for (int i = 0; i < 50; ++i) {
    auto made = promises->Make(1000 + i, kMiB);
    REQUIRE(made.ok());
    kept.push_back(*std::move(made));
  }
  CHECK(looks <= 50 + 102);  // one look at all, and one at each
  CHECK(promises->Make(2000, kMiB).status().reason() == "NO_MEMORY");
}

TEST_CASE("what ends, or was refused, is promised no more") {
  const auto promises = Made(10 * kMiB);
  auto all = promises->Make(1, 10 * kMiB);
  REQUIRE(all.ok());
  CHECK_FALSE(promises->CheckRoom(1).ok());
  all->reset();
  CHECK_FALSE(promises->Make(2, 11 * kMiB).ok());
  CHECK(promises->CheckRoom(10 * kMiB).ok());
}

TEST_CASE("a file that has lost its memory is promised it anew, or not") {
  const auto promises = Made(40 * kMiB);
  given[1] = 40 * kMiB;
  auto touched = promises->Make(1, 40 * kMiB);
  REQUIRE(touched.ok());
  auto other = promises->Make(2, 20 * kMiB);
  REQUIRE(other.ok());
  given.clear();
  CHECK((*touched)->Renew().reason() == "NO_MEMORY");
  other->reset();
  CHECK((*touched)->Renew().ok());
  CHECK_FALSE(promises->CheckRoom(1).ok());
}

}  // namespace promises_test
