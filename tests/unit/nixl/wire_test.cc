#include "client/nixl/wire.h"

#include <string>
#include <utility>
#include <vector>

#include "client/nixl/settings.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::nixl;

TEST_CASE("what agents tell each other is read as it was written") {
  const AgentPlace agent{"west", "nixl-0123", "4711-ab"};
  REQUIRE_OK(DecodeAgent(Encode(agent)));
  CHECK(*DecodeAgent(Encode(agent)) == agent);
  const MemoryPlace memory{"nixl-0123-7", UINT64_MAX};
  REQUIRE_OK(DecodeMemory(Encode(memory)));
  CHECK(*DecodeMemory(Encode(memory)) == memory);
  const MemoryPlace nowhere{"", 0};  // memory without bytes
  REQUIRE_OK(DecodeMemory(Encode(nowhere)));
  CHECK(*DecodeMemory(Encode(nowhere)) == nowhere);
}

TEST_CASE("metadata that no agent wrote is refused") {
  const std::string text = GENERATE(
      std::string(), std::string("onecopy-memory-1"), std::string("onecopy-memory-1 b"),
      std::string("onecopy-memory-1 b 1 2"), std::string("onecopy-memory-1  1"),
      std::string("onecopy-memory-1 b -1"), std::string("onecopy-memory-1 b 1x"),
      std::string("onecopy-memory-1 b 99999999999999999999"), std::string("onecopy-memory-2 b 1"),
      "onecopy-memory-1 " + std::string(300, 'b') + " 1", std::string("\0\0", 2));
  CHECK(DecodeMemory(text).status().reason() == reasons::kBadArgument);
  CHECK(DecodeAgent(text).status().reason() == reasons::kBadArgument);
}

TEST_CASE("settings of the backend") {
  const auto none = ParseSettings(DefaultParameters());
  REQUIRE_OK(none);
  CHECK(none->policy == Policy{});
  CHECK(none->grant_to.empty());

  const auto some = ParseSettings({{"run_dir", "/run/x"},
                                   {"at_most", "2"},
                                   {"path", "rdma-*"},
                                   {"checksum", "true"},
                                   {"grant_to", " 1000@west,1001@east ,"}});
  REQUIRE_OK(some);
  CHECK(some->run_dir == "/run/x");
  CHECK(some->checksum);
  CHECK_FALSE(none->checksum);
  CHECK_FALSE(ParseSettings({{"checksum", "false"}})->checksum);
  CHECK(some->policy == Policy{.path_glob = "rdma-*", .at_most_copies = 2});
  CHECK(some->grant_to == std::vector<std::string>{"1000@west", "1001@east"});

  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"at_most", "0"},
                                                        {"at_most", "two"},
                                                        {"at_most", "-1"},
                                                        {"checksum", "yes"},
                                                        {"atmost", "2"}}) {
    const auto bad = ParseSettings({{key, value}});
    CHECK(bad.status().reason() == reasons::kBadConfig);
    CHECK(bad.status().remedy().find("at_most") != std::string::npos);
  }
}
