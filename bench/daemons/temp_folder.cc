#include "bench/daemons/temp_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "transport/os/error.h"

namespace onecopy::bench {

Result<std::unique_ptr<TempFolder>> TempFolder::Create() {
  std::error_code error;
  std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error) parent = "/tmp";
  std::string pattern = (parent / "onecopy-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    return os::ErrnoStatus(errno, "making a folder in " + parent.string());
  }
  return std::unique_ptr<TempFolder>(new TempFolder(pattern));
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace onecopy::bench
