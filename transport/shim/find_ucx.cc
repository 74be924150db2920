#include "transport/shim/find_ucx.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace onecopy::shim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libucp.so.0";

struct UcxFolder {
  const char* pattern;
  bool vendors;
};
// Of HPC-X the build for several threads, where there are both.
constexpr UcxFolder kUcxFolders[] = {
    {"usr/lib/*-linux-gnu", false},
    {"usr/lib64", false},
    {"usr/lib", false},
    {"usr/local/lib", false},
    {"opt/hpcx*/ucx/lib", true},
    {"opt/hpcx*/ucx/mt/lib", true},
    {"opt/nvidia/hpcx*/ucx/lib", true},
    {"opt/nvidia/hpcx*/ucx/mt/lib", true},
    {"opt/nvidia/hpc_sdk/Linux_*/*/comm_libs/*/hpcx/hpcx-*/ucx/lib", true},
    {"opt/nvidia/hpc_sdk/Linux_*/*/comm_libs/*/hpcx/hpcx-*/ucx/mt/lib", true},
    {"opt/mellanox/*/ucx/lib", true},
    {"opt/mellanox/doca/lib/*-linux-gnu", true},
};

std::vector<std::string> UcxMatches(const fs::path& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);  // in order
  }
  ::globfree(&found);
  return paths;
}

bool HasUcxModule(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  return fs::exists(folder / "ucx" / ("libuct_" + name + ".so.0"), ignored) ||
         fs::exists(folder / "ucx" / ("libuct_" + name + ".so"), ignored);
}

// A daemon that serves several users runs only what root, or its own user, can change.
std::string WhyUnsafe(const fs::path& library) {
  std::error_code ignored;
  const fs::path real = fs::canonical(library, ignored);
  for (const fs::path& path : {real, real.parent_path(), real.parent_path() / "ucx"}) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) continue;
    if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
      return path.string() + " belongs to uid " + std::to_string(info.st_uid);
    }
    if ((info.st_mode & S_IWOTH) != 0) return "every user can change " + path.string();
  }
  return {};
}

bool SaidByEnvironment() {
  const char* const paths = ::getenv("LD_LIBRARY_PATH");
  if (paths == nullptr) return false;
  const std::string all = paths;
  for (size_t at = 0; at <= all.size();) {
    const size_t end = std::min(all.find(':', at), all.size());
    std::error_code ignored;
    if (end > at && fs::exists(fs::path(all.substr(at, end - at)) / kLibrary, ignored)) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::vector<UcxBuild> InstalledUcx(const std::string& root) {
  std::vector<UcxBuild> builds;
  for (const UcxFolder& place : kUcxFolders) {
    for (const std::string& folder : UcxMatches(fs::path(root) / place.pattern)) {
      const fs::path library = fs::path(folder) / kLibrary;
      std::error_code ignored;
      if (!fs::exists(library, ignored)) continue;
      builds.push_back({library.string(), place.vendors, HasUcxModule(folder, "ib"),
                        HasUcxModule(folder, "cuda"), WhyUnsafe(library)});
    }
  }
  return builds;
}

const UcxBuild* ChooseUcx(const std::vector<UcxBuild>& builds) {
  if (SaidByEnvironment()) return nullptr;
  int least = 0;  // of the distribution's, which the system finds
  for (const UcxBuild& build : builds) {
    if (!build.vendors) least = std::max(least, build.reaches());
  }
  const UcxBuild* best = nullptr;
  for (const UcxBuild& build : builds) {
    if (!build.vendors || !build.unsafe.empty() || build.reaches() <= least) continue;
    if (best == nullptr || build.reaches() >= best->reaches()) best = &build;
  }
  return best;
}

}  // namespace onecopy::shim
