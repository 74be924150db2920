// Finding the fake libcufile (tests/support/fake_cufile); FAKE_CUFILE says what it is.
#pragma once

#include <string>

#include "tests/support/test_library.h"

namespace onecopy::testing {

inline std::string FakeCufilePath() { return TestLibrary("libonecopy_fake_cufile.so"); }
// Without batches.
inline std::string SingleFakeCufilePath() {
  return TestLibrary("libonecopy_fake_cufile_single.so");
}
// Without batches and counters, and without its version.
inline std::string OldFakeCufilePath() { return TestLibrary("libonecopy_fake_cufile_old.so"); }

}  // namespace onecopy::testing
