#include "bench/daemons/beside.h"

#include <filesystem>
#include <system_error>

#include "onecopy/reasons.h"

namespace onecopy::bench {

Result<std::string> DaemonProgram(const std::string& named) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = named.empty() ? (self.parent_path() / "onecopyd").string() : named;
  if (std::filesystem::exists(program)) return program;
  return Status(Code::kNotFound, reasons::kFileNotFound, "there is no " + program,
                "name it by --onecopyd PATH");
}

}  // namespace onecopy::bench
