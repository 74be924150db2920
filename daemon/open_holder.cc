#include "daemon/open_holder.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/config/sections.h"
#include "onecopy/reasons.h"

namespace onecopy {
namespace {

namespace fs = std::filesystem;

// Beside this program, or where an installation has it.
Result<std::string> HolderProgram() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& candidate :
       {folder / "onecopy-holder", folder.parent_path() / "libexec" / "onecopy-holder"}) {
    if (fs::exists(candidate, error)) return candidate.string();
  }
  return Status(Code::kNotFound, reasons::kNotServed,
                "[restart] holder is \"own\", and there is no program onecopy-holder beside " +
                    (folder / "onecopyd").string(),
                "install it there, or set holder to \"off\"");
}

}  // namespace

Result<std::unique_ptr<holder::HolderClient>> OpenHolder(const config::Config& config,
                                                         const std::string& run_dir) {
  if (config.holder == config::kOff) return std::unique_ptr<holder::HolderClient>();
  holder::HolderClient::Options options;
  options.socket = config.holder;
  options.hold_for = config.hold_for;
  if (config.holder == config::kOwn) {
    options.socket = run_dir + "/holder.sock";
    ONECOPY_ASSIGN_OR_RETURN(const std::string program, HolderProgram());
    options.program = {program, "--background", options.socket};
  }
  return holder::HolderClient::Open(std::move(options));
}

}  // namespace onecopy
