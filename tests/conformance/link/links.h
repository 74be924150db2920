// The implementations of Link that this machine has: every test of this suite runs on each of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/link_pair.h"

namespace onecopy::testing {

struct LinkUnderTest {
  std::string name;
  std::function<Result<std::unique_ptr<LinkPair>>()> make;
  std::string missing = {};  // why this machine does not have it after all; empty: it has
  bool emulated = false;     // by software that takes a hundred times as long: less of the same
};

const std::vector<LinkUnderTest>& Links();

// At the beginning of a test case: runs it for each link, skips it for one that is missing.
#define ONECOPY_FOR_EACH_LINK(link)                                                                \
  const LinkUnderTest& link = GENERATE(from_range(Links())); /* NOLINT: a name that is declared */ \
  CAPTURE((link).name);                                                                            \
  if (!(link).missing.empty()) ONECOPY_SKIP((link).missing)

}  // namespace onecopy::testing
