// Libraries that are built beside the tests.
#pragma once

#include <filesystem>
#include <string>

namespace onecopy::testing {

// The file of a library that was built beside the tests: <build>/bin/tests/<suite>/<program> and
// <build>/lib.
inline std::string TestLibrary(const std::string& name) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path().parent_path().parent_path() / "lib" / name;
}

}  // namespace onecopy::testing
