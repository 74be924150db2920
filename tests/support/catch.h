// Catch2 of either major version, and the one thing that version 2 lacks.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#define ONECOPY_SKIP(why) SKIP(why)
#else
#include <catch2/catch.hpp>
// In the body of a test case only. tests/run counts a case with this warning as skipped.
#define ONECOPY_SKIP(why)    \
  do {                       \
    WARN("SKIP: " << (why)); \
    return;                  \
  } while (false)
#endif

#include "onecopy/result.h"

// Requires that a Status or Result is a success, and prints it where it is not.
#define REQUIRE_OK(expression)                                                           \
  do {                                                                                   \
    const ::onecopy::Status onecopy_outcome = ::onecopy::testing::OutcomeOf(expression); \
    INFO(#expression " -> " << onecopy_outcome.ToString());                              \
    REQUIRE(onecopy_outcome.ok());                                                       \
  } while (false)

namespace onecopy::testing {

inline Status OutcomeOf(const Status& status) { return status; }
template <typename T>
Status OutcomeOf(const Result<T>& result) {
  return result.status();
}

}  // namespace onecopy::testing
