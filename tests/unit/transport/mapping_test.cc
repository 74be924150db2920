#include "transport/os/mapping.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <limits>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace os = onecopy::os;

TEST_CASE("two mappings of a sealed memfd show the same bytes, and its size cannot change") {
  auto fd = os::SealedMemfd("test", 10000);
  REQUIRE_OK(fd);
  auto one = os::MapShared(fd->get(), 10000);
  auto two = os::MapShared(fd->get(), 10000);
  REQUIRE_OK(one);
  REQUIRE_OK(two);
  std::memset(one->data(), 7, 10000);
  CHECK(two->data()[9999] == std::byte{7});
  CHECK(::ftruncate(fd->get(), 5) != 0);
  CHECK(::ftruncate(fd->get(), 50000) != 0);
  CHECK((::fcntl(fd->get(), F_GET_SEALS) & F_SEAL_SHRINK) != 0);
}

TEST_CASE("impossible sizes fail and empty ones do not") {
  const auto endless = os::SealedMemfd("test", std::numeric_limits<uint64_t>::max()).status();
  CHECK(endless.reason() == onecopy::reasons::kNoMemory);
  CHECK_FALSE(endless.remedy().empty());
  CHECK_FALSE(os::MapAnonymous(std::numeric_limits<uint64_t>::max() / 2).ok());
  CHECK(os::MapAnonymous(0).ok());
}
