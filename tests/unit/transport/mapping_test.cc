#include "transport/os/memory/mapping.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace os = onecopy::os;

namespace {

// What the kernel was told of the mapping that begins there, by its two letters each.
std::string MappingFlags(const std::byte* begin) {
  std::array<char, 32> wanted{};
  std::snprintf(wanted.data(), wanted.size(), "%zx-", reinterpret_cast<uintptr_t>(begin));
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) here = line.starts_with(wanted.data());
    if (here && line.starts_with("VmFlags:")) return line + " ";
  }
  return {};
}

}  // namespace

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

TEST_CASE("memory for devices begins and ends with a huge page, and no child has it") {
  for (const uint64_t bytes : {uint64_t{1}, os::kHugePageBytes, 3 * os::kHugePageBytes + 1}) {
    INFO(bytes << " bytes");
    const auto mapping = os::MapHugePages(bytes);
    REQUIRE_OK(mapping);
    CHECK(reinterpret_cast<uintptr_t>(mapping->data()) % os::kHugePageBytes == 0);
    CHECK(mapping->bytes() % os::kHugePageBytes == 0);
    CHECK(mapping->bytes() >= bytes);
    CHECK(mapping->bytes() - bytes < os::kHugePageBytes);
    CHECK(mapping->data()[mapping->bytes() - 1] == std::byte{0});
    std::memset(mapping->data(), 7, mapping->bytes());
    const std::string flags = MappingFlags(mapping->data());
    INFO(flags);
    CHECK(flags.find(" dc ") != std::string::npos);
    // Kernels that have none take the advice or refuse it.
    const bool has = std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
    CHECK((!has || flags.find(" hg ") != std::string::npos));
  }
  CHECK(os::MapHugePages(0)->bytes() == 0);
  for (const uint64_t most : {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 62}) {
    CHECK_FALSE(os::MapHugePages(most).ok());
  }
}
