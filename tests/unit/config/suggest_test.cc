#include "tests/support/catch.h"
#include "transport/core/base/nearest.h"

using onecopy::Nearest;

namespace {

const std::vector<std::string> kKnown = {"name",        "listen", "lanes",         "slot_bytes",
                                         "slots",       "key",    "stall_timeout", "drain_timeout",
                                         "certificate", "ca"};

}  // namespace

TEST_CASE("a mistyped word is recognised") {
  const auto [typed, meant] = GENERATE(table<const char*, const char*>({
      {"nmae", "name"},
      {"name ", "name"},
      {"names", "name"},
      {"listn", "listen"},
      {"slot-bytes", "slot_bytes"},
      {"SLOT_BYTES", "slot_bytes"},
      {"slotbytes", "slot_bytes"},
      {"slot", "slots"},
      {"stal_timeout", "stall_timeout"},
      {"certifcate", "certificate"},
      {"kye", "key"},
      {"cs", "ca"},
  }));
  CHECK(Nearest(typed, kKnown) == meant);
}

TEST_CASE("what resembles nothing suggests nothing") {
  const auto* typed =
      GENERATE("", "x", "zebra", "interfaces", "timeout_of_everything", "kind", "lixxxn");
  INFO(typed);
  CHECK(Nearest(typed, kKnown).empty());
}

TEST_CASE("a huge word costs nothing") {
  CHECK(Nearest(std::string(1'000'000, 'a'), kKnown).empty());
}
