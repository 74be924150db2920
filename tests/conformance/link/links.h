// The implementations of Link that this machine has: every test of this suite runs on each of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/link_pair.h"

namespace onecopy::testing {

struct LinkUnderTest {
  std::string name;
  std::function<Result<std::unique_ptr<LinkPair>>()> make;
};

const std::vector<LinkUnderTest>& Links();

}  // namespace onecopy::testing
