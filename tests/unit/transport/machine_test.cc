#include "transport/os/machine/machine.h"

#include <unistd.h>

#include <set>

#include "tests/support/catch.h"

namespace os = onecopy::os;

TEST_CASE("facts about this machine are there") {
  CHECK_FALSE(os::HostName().empty());
  CHECK(os::HostIdentity().size() == 36);
  CHECK(os::AvailableMemoryBytes() > (uint64_t{1} << 20));
  CHECK(os::UsableCores() >= 1);
  CHECK(os::SharesPidNamespace(::getpid()));
  CHECK_FALSE(os::SharesPidNamespace(0));
}

TEST_CASE("random text does not repeat") {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string text = os::RandomHex(16);
    CHECK(text.size() == 32);
    CHECK(seen.insert(text).second);
  }
}
