// Shared by the files of the suite.
#pragma once

#include <memory>
#include <string>

#include "onecopy/reasons.h"
#include "tests/conformance/memory/bytes.h"
#include "tests/conformance/memory/subject.h"
#include "tests/support/catch.h"

// Declares `subject`, or skips the test case.
// NOLINTBEGIN(bugprone-macro-parentheses): a name that is declared takes none
#define ONECOPY_SUBJECT(subject)                                     \
  std::string subject##_missing;                                     \
  const std::unique_ptr<onecopy::testing::Subject> subject##_owner = \
      onecopy::testing::MakeSubject(subject##_missing);              \
  if (subject##_owner == nullptr) ONECOPY_SKIP(subject##_missing);   \
  onecopy::testing::Subject& subject = *subject##_owner
// NOLINTEND(bugprone-macro-parentheses)

namespace onecopy::testing {

inline RegionRef AllocateOrFail(Subject& subject, const std::string& device, uint64_t bytes) {
  auto region = subject.Make(device, bytes);
  REQUIRE_OK(region);
  return RegionRef(std::move(*region));
}

}  // namespace onecopy::testing
