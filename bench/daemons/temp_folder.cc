#include "bench/daemons/temp_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "transport/os/base/error.h"

namespace onecopy::bench {

Result<std::unique_ptr<TempFolder>> TempFolder::Create() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  return CreateIn(error ? "/tmp" : parent.string());
}

Result<std::unique_ptr<TempFolder>> TempFolder::CreateIn(const std::string& parent) {
  std::string pattern = parent + "/onecopy-bench-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    return os::ErrnoStatus(errno, "making a folder in " + parent);
  }
  return std::unique_ptr<TempFolder>(new TempFolder(pattern));
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace onecopy::bench
