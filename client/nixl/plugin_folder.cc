#include "client/nixl/plugin_folder.h"

#include <stdlib.h>

#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <system_error>
#include <vector>

#include "client/nixl/versions.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/files/path_owners.h"

namespace onecopy::nixl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLibraries = ".mesonpy.libs";

using Links = std::map<std::string, fs::path>;  // what they point to, by where they lie

Status Missing(const std::string& message, const std::string& remedy) {
  return {Code::kFailedPrecondition, reasons::kNixlMissing, message, remedy};
}

// "nixl_cu13" of each wheel of NIXL's that is installed there.
std::vector<std::string> FindPackages(const fs::path& packages) {
  std::vector<std::string> found;
  for (const std::string name : {"nixl_cu12", "nixl_cu13"}) {
    std::error_code error;
    if (fs::is_directory(packages / ("." + name + std::string(kLibraries)) / "plugins", error)) {
      found.push_back(name);
    }
  }
  return found;
}

Result<std::string> ChoosePackage(const PluginFolderRequest& request) {
  const std::vector<std::string> found = FindPackages(request.packages);
  if (found.empty()) {
    return Missing(
        "NIXL's wheel is not installed in " + request.packages.string(),
        "install it beside onecopy (pip install nixl-cu13), or name its folder with --packages");
  }
  if (request.nixl.empty()) {
    if (found.size() == 1) return found.front();
    return Missing("both nixl_cu12 and nixl_cu13 are installed in " + request.packages.string(),
                   "choose with --nixl nixl_cu12 or --nixl nixl_cu13");
  }
  for (const std::string& name : found) {
    if (name == request.nixl) return name;
  }
  return Missing("package " + request.nixl + " is not installed in " + request.packages.string(),
                 "leave out --nixl, or install it: pip install " + request.nixl);
}

// Each file of the folder `from`, for the folder `to`.
Status AddFiles(const fs::path& from, const std::string& to, Links& links) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(from, error)) {
    if (entry.is_directory()) continue;
    links[to + "/" + entry.path().filename().string()] = entry.path();
  }
  if (!error) return OkStatus();
  return os::ErrnoStatus(error.value(), "reading " + from.string());
}

Result<Links> PlanLinks(const fs::path& packages, const std::string& nixl, const fs::path& plugin) {
  Links links;
  const std::string libraries = "." + nixl + std::string(kLibraries);
  ONECOPY_RETURN_IF_ERROR(AddFiles(packages / libraries, libraries, links));
  ONECOPY_RETURN_IF_ERROR(
      AddFiles(packages / libraries / "plugins", libraries + "/plugins", links));
  links[nixl + ".libs"] = packages / (nixl + ".libs");
  links[libraries + "/plugins/libplugin_ONECOPY.so"] = plugin;
  // The libraries that the plug-in was given for itself lie beside its package.
  const fs::path own = plugin.parent_path().parent_path().parent_path() / "onecopy.libs";
  if (std::error_code error; fs::is_directory(own, error)) links["onecopy.libs"] = own;
  return links;
}

// NIXL loads what lies there into its user's programs.
Status CheckOwners(const fs::path& folder) {
  const Status status = os::CheckPathOwners(folder.string(), os::PathTrust::kOwnersAlone);
  if (status.ok()) return status;
  return {status.code(), status.reason(), status.message(),
          "name a folder with --cache that only you and root can write to"};
}

std::string HashOf(const Links& links) {
  std::string all;
  for (const auto& [link, target] : links) all += link + "\n" + target.string() + "\n";
  std::array<char, 17> digits = {};
  std::snprintf(digits.data(), digits.size(), "%016zx", std::hash<std::string>()(all));
  return digits.data();
}

// All of them, in a folder that appears with them.
Status MakeLinks(const Links& links, const fs::path& folder) {
  std::string scratch = folder.string() + ".XXXXXX";
  if (::mkdtemp(scratch.data()) == nullptr) {
    return os::ErrnoStatus(errno, "making a folder beside " + folder.string(),
                           "name a folder that can be written to with --cache");
  }
  std::error_code error;
  for (const auto& [link, target] : links) {
    const fs::path at = fs::path(scratch) / link;
    fs::create_directories(at.parent_path(), error);
    // Whatever the umask, as others could put files there.
    if (!error) fs::permissions(at.parent_path(), fs::perms{0755}, error);
    if (!error) fs::create_symlink(target, at, error);
    if (error) break;
  }
  if (!error) fs::rename(scratch, folder, error);
  if (!error) return OkStatus();
  const Status failure = os::ErrnoStatus(error.value(), "making " + folder.string());
  fs::remove_all(scratch, error);
  // Somebody else may have made it meanwhile: what is there is whole.
  return fs::is_directory(folder, error) ? OkStatus() : failure;
}

}  // namespace

Result<fs::path> MakePluginFolder(const PluginFolderRequest& request) {
  std::error_code error;
  const fs::path packages = fs::canonical(request.packages, error);
  if (error) return os::ErrnoStatus(error.value(), "looking into " + request.packages.string());
  const fs::path plugin = fs::canonical(request.plugin, error);
  if (error) {
    return Missing(
        "the plug-in " + request.plugin.string() + " is not there: " + error.message(),
        "use the `onecopy` of the Python package, which contains it: pip install onecopy");
  }
  ONECOPY_ASSIGN_OR_RETURN(const std::string nixl, ChoosePackage({packages, request.nixl, {}, {}}));
  const fs::path core = packages / ("." + nixl + std::string(kLibraries)) / "libnixl.so";
  ONECOPY_ASSIGN_OR_RETURN(const NixlCore found, FindCoreOf(core.string()));
  ONECOPY_RETURN_IF_ERROR(CheckKnown(found));
  ONECOPY_ASSIGN_OR_RETURN(const Links links, PlanLinks(packages, nixl, plugin));
  const fs::path cache = fs::absolute(request.cache);
  ONECOPY_RETURN_IF_ERROR(CheckOwners(cache));
  fs::create_directories(cache, error);
  if (error) {
    return os::ErrnoStatus(error.value(), "making " + request.cache.string(),
                           "name a folder that can be written to with --cache");
  }
  const fs::path folder = cache / (found.version + "-" + HashOf(links));
  if (!fs::is_directory(folder, error)) ONECOPY_RETURN_IF_ERROR(MakeLinks(links, folder));
  fs::path plugins = folder / ("." + nixl + std::string(kLibraries)) / "plugins";
  ONECOPY_RETURN_IF_ERROR(CheckOwners(plugins));
  return plugins;
}

}  // namespace onecopy::nixl
