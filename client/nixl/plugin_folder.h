// The folder for NIXL_PLUGIN_DIR, which takes the place of the one in NIXL's wheel: so it has that
// one's plug-ins, and ours.
#pragma once

#include <filesystem>
#include <string>

#include "onecopy/result.h"

namespace onecopy::nixl {

struct PluginFolderRequest {
  std::filesystem::path packages;  // site-packages, where NIXL's wheel is installed
  std::string nixl = {};           // "nixl_cu12", "nixl_cu13"; empty: the one that is installed
  std::filesystem::path plugin;    // libplugin_ONECOPY.so, in a package of its own
  std::filesystem::path cache;     // where folders are made; itself made if it is not there
};

// Makes it, unless it is there already, and returns its path. It consists of links, laid out as the
// wheels are, since the libraries find each other by where they lie; another version of either has
// another folder. PERMISSION_DENIED (ACCESS_DENIED) where another user could exchange what is in
// it, as os::CheckPathOwners says. FAILED_PRECONDITION (NIXL_MISSING) where there is no NIXL, or
// there are several; (NIXL_UNKNOWN) for a version that the plug-in would refuse; as ErrnoStatus for
// the folder.
Result<std::filesystem::path> MakePluginFolder(const PluginFolderRequest& request);

}  // namespace onecopy::nixl
