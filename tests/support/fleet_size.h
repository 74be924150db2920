// How many daemons a test of fleets starts.
#pragma once

#include <cstdlib>
#include <string>

namespace onecopy::testing {

// `few`, or the value of ONECOPY_FLEET, which one sets by hand to measure.
inline size_t FleetSize(size_t few) {
  const char* const asked = std::getenv("ONECOPY_FLEET");
  return asked == nullptr ? few : std::stoul(asked);
}

}  // namespace onecopy::testing
