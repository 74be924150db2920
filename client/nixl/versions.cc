#include "client/nixl/versions.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "onecopy/reasons.h"

namespace onecopy::nixl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDistInfo = ".dist-info";

std::string KnownText() {
  std::string text;
  for (const std::string& version : KnownVersions()) {
    text += (text.empty() ? "" : ", ") + version;
  }
  return text;
}

Status Unknown(const std::string& message) {
  return {Code::kFailedPrecondition, reasons::kNixlUnknown, message,
          "install a NIXL wheel that this plug-in supports (pip install nixl-cu13, version " +
              KnownText() + "), or a newer onecopy"};
}

// The size that the package's list of files, at `record`, has of `file`; nothing where it is not
// in the list.
std::optional<uint64_t> RecordedBytes(const fs::path& record, const std::string& file) {
  std::ifstream in(record);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(file + ",")) continue;
    const size_t comma = line.rfind(',');
    uint64_t bytes = 0;
    const auto [end, error] =
        std::from_chars(line.data() + comma + 1, line.data() + line.size(), bytes);
    if (error == std::errc() && end != line.data() + comma + 1) return bytes;
  }
  return std::nullopt;
}

}  // namespace

const std::vector<std::string>& KnownVersions() {
  static const std::vector<std::string> versions = {"1.1.0", "1.2.0", "1.3.0", "1.3.1", "1.3.2",
                                                    "1.4.0", "1.4.1", "1.5.0", "1.5.1"};
  return versions;
}

Result<NixlCore> FindCore(const void* address) {
  Dl_info info = {};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return Unknown(
        "the plug-in was not called by a library, so it cannot tell the version of NIXL");
  }
  return FindCoreOf(info.dli_fname);
}

Result<NixlCore> FindCoreOf(const std::string& library) {
  std::error_code error;
  const fs::path path = fs::canonical(library, error);
  if (error) return Unknown("NIXL's library " + library + " is not there: " + error.message());
  const uint64_t bytes = fs::file_size(path, error);
  if (error) return Unknown("NIXL's library " + path.string() + ": " + error.message());

  // Wheels lay it into a folder of its own beside the packages' descriptions.
  const fs::path site = path.parent_path().parent_path();
  const std::string file = fs::relative(path, site, error).string();
  for (const fs::directory_entry& entry : fs::directory_iterator(site, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(kDistInfo)) continue;
    const std::string stem = name.substr(0, name.size() - kDistInfo.size());
    const size_t dash = stem.find('-');
    if (dash == std::string::npos || !stem.starts_with("nixl")) continue;
    const std::optional<uint64_t> recorded = RecordedBytes(entry.path() / "RECORD", file);
    if (!recorded) continue;
    if (*recorded != bytes) {
      return Unknown(path.string() + " is not the file of its package " + stem + ": it has " +
                     std::to_string(bytes) + " bytes, not " + std::to_string(*recorded));
    }
    return NixlCore{path.string(), stem.substr(0, dash), stem.substr(dash + 1)};
  }
  return Unknown("NIXL's library " + path.string() +
                 " does not belong to a Python package, so its version is unknown");
}

Status CheckKnown(const NixlCore& core) {
  const std::vector<std::string>& known = KnownVersions();
  if (std::find(known.begin(), known.end(), core.version) != known.end()) return OkStatus();
  return Unknown("NIXL " + core.version + " (" + core.package + ", " + core.library +
                 ") is not a version that this plug-in supports");
}

}  // namespace onecopy::nixl
