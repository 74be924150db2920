#include "daemon/plan/ladder.h"

#include "tests/support/catch.h"
#include "transport/core/base/glob.h"

using onecopy::MatchesGlob;
using onecopy::plan::kLadder;

TEST_CASE("a glob fits the names that it describes, and no others") {
  const auto [glob, name, fits] = GENERATE(table<const char*, const char*, bool>({
      {"tcp-direct", "tcp-direct", true},
      {"tcp-direct", "tcp-directx", false},
      {"tcp-directx", "tcp-direct", false},
      {"tcp-*", "tcp-bounce", true},
      {"tcp-*", "tcp-", true},
      {"tcp-*", "rdma-bounce", false},
      {"*-staged", "rdma-staged", true},
      {"*-staged", "rdma-staged-x", false},
      {"*", "local", true},
      {"**", "", true},
      {"*-*", "local", false},
      {"?cp-direct", "tcp-direct", true},
      {"?", "", false},
      {"?*", "local", true},
      {"*a*b*", "xaxxbx", true},
      {"*ab", "aab", true},
      {"*ab", "abab", true},
      {"a*ba", "aba", true},
      {"a*ba", "ab", false},
      {"", "", true},
      {"", "local", false},
      {"TCP-*", "tcp-direct", false},
      {"[t]cp-direct", "tcp-direct", false},
  }));
  INFO(glob << " and " << name);
  CHECK(MatchesGlob(glob, name) == fits);
}

TEST_CASE("many stars do not make a glob slow") {
  const std::string name(5000, 'a');
  std::string glob;
  for (int i = 0; i < 200; ++i) glob += "*a";
  CHECK(MatchesGlob(glob + "*", name));
  CHECK_FALSE(MatchesGlob(glob + "*b", name));
}

TEST_CASE("every rung of the ladder has a name of its own") {
  for (const auto& rung : kLadder) {
    int fitting = 0;
    for (const auto& other : kLadder) fitting += MatchesGlob(rung.name, other.name) ? 1 : 0;
    CHECK(fitting == 1);
  }
}
