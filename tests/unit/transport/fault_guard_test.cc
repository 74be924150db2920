// Mappings whose pages are gone, and what becomes of whoever touches them.
#include "transport/os/memory/fault_guard.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/sanitized.h"
#include "transport/os/memory/mapping.h"

using namespace onecopy;

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kGuardedBytes = 16 * kPage;

// A mapping of a file that is shorter than it from page 8 on: touching the rest is SIGBUS.
struct Torn {
  os::UniqueFd fd{::memfd_create("torn", MFD_CLOEXEC)};
  os::Mapping mapping;
  os::FaultFlag flag = std::make_shared<std::atomic<bool>>(false);

  Torn() {
    REQUIRE(::ftruncate(fd.get(), kGuardedBytes) == 0);
    auto mapped = os::MapShared(fd.get(), kGuardedBytes);
    REQUIRE_OK(mapped);
    mapping = std::move(*mapped);
    std::memset(mapping.data(), 'x', kGuardedBytes);
    REQUIRE(::ftruncate(fd.get(), 8 * kPage) == 0);
  }
  os::FaultGuard Guard() const { return {mapping.data(), mapping.bytes(), flag}; }
};

}  // namespace

TEST_CASE("a page that is not there marks the mapping, and whoever reads it goes on") {
  Torn torn;
  const os::FaultGuard guard = torn.Guard();
  std::vector<std::byte> copy(kGuardedBytes, std::byte('?'));
  std::memcpy(copy.data(), torn.mapping.data(), 8 * kPage);
  CHECK_FALSE(*torn.flag);
  CHECK(copy[8 * kPage - 1] == std::byte('x'));
  std::memcpy(copy.data() + 8 * kPage, torn.mapping.data() + 8 * kPage, 8 * kPage);
  CHECK(*torn.flag);
  CHECK(copy[8 * kPage] == std::byte(0));
  // All of it is now nothing's, whoever the file belongs to.
  CHECK(torn.mapping.data()[0] == std::byte(0));
  torn.mapping.data()[0] = std::byte('y');
  char there = 0;
  REQUIRE(::pread(torn.fd.get(), &there, 1, 0) == 1);
  CHECK(there == 'x');
}

TEST_CASE("a write to a page that is not there goes nowhere") {
  Torn torn;
  const os::FaultGuard guard = torn.Guard();
  torn.mapping.data()[kGuardedBytes - 1] = std::byte('y');
  CHECK(*torn.flag);
}

TEST_CASE("a fault marks only the mapping that it is in, among many") {
  std::vector<Torn> all;
  for (int i = 0; i < 2000; ++i) {
    all.emplace_back();
    all.back().fd.Reset();  // an ordinary user may not have so many open
  }
  std::vector<os::FaultGuard> guards;
  guards.reserve(all.size());
  for (const Torn& torn : all) guards.push_back(torn.Guard());
  for (size_t i = 0; i < guards.size(); i += 3) guards[i] = os::FaultGuard();
  CHECK(all[1999].mapping.data()[8 * kPage] == std::byte(0));
  CHECK(all[1000].mapping.data()[8 * kPage] == std::byte(0));
  for (size_t i = 0; i < all.size(); ++i) {
    if (*all[i].flag != (i == 1000 || i == 1999)) FAIL("mapping " << i);
  }
}

TEST_CASE("many threads may fault at once, while guards come and go") {
  std::vector<Torn> all(64);
  std::atomic<bool> stop{false};
  std::thread others([&] {
    Torn mine;
    while (!stop) const os::FaultGuard guard = mine.Guard();
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (Torn& torn : all) {
        const os::FaultGuard guard = torn.Guard();
        for (uint64_t page = 8; page < 16; ++page) torn.mapping.data()[page * kPage] = std::byte(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  others.join();
  for (const Torn& torn : all) CHECK(*torn.flag);
}

TEST_CASE("what nobody guards still ends the process") {
  if (testing::kAddressSanitizer) ONECOPY_SKIP("a sanitizer ends the process in its own way");
  Torn guarded;
  const os::FaultGuard guard = guarded.Guard();
  Torn other;
  const pid_t child = ::fork();
  if (child == 0) {
    const volatile std::byte* at = other.mapping.data() + 8 * kPage;
    ::_exit(static_cast<int>(*at));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
}
