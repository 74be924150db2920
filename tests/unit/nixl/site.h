// A folder of Python packages in which wheels of NIXL seem to be installed.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_folder.h"

namespace onecopy::testing {

class Site {
 public:
  // As pip lays it; the package's list has `recorded` bytes for the library.
  void Install(const std::string& package, const std::string& version, size_t recorded = 4) {
    const std::string libraries = "." + package + ".mesonpy.libs";
    Write(libraries + "/libnixl.so", "core");
    Write(libraries + "/plugins/libplugin_UCX.so", "ucx");
    Write(package + ".libs/libucp.so", "ucp");
    Write(package + "-" + version + ".dist-info/RECORD", package + "/__init__.py,sha256=x,12\n" +
                                                             libraries + "/libnixl.so,sha256=x," +
                                                             std::to_string(recorded) + "\n");
  }

  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  std::filesystem::path path() const { return std::filesystem::canonical(folder_.path()); }
  std::string Core(const std::string& package) const {
    return folder_ / ("." + package + ".mesonpy.libs/libnixl.so");
  }

 private:
  TempFolder folder_;
};

}  // namespace onecopy::testing
