// The folder that `cp` of a buffer with an index of files writes into.
#pragma once

#include <filesystem>
#include <utility>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::cli {

// Found once, and held by a descriptor; what is below it is reached from there name by name,
// through no symbolic link. Another user who may write into the folder cannot redirect a file out
// of it. One thread.
class TargetFolder {
 public:
  // Makes the folder, and those that it is in, where they do not exist. `sync`: the disk has each
  // folder that is made, and its name, once the call that made it has succeeded.
  static Result<TargetFolder> Make(const std::filesystem::path& path, bool sync);

  // The folder of that name below it, which is made likewise; empty: itself. An O_PATH descriptor.
  // FAILED_PRECONDITION (ACCESS_DENIED) for a symbolic link.
  Result<os::UniqueFd> Below(const std::filesystem::path& name) const;

 private:
  TargetFolder(std::filesystem::path path, bool sync) : path_(std::move(path)), sync_(sync) {}

  std::filesystem::path path_;  // for messages
  bool sync_;
  os::UniqueFd folder_;
};

// What refuses a symbolic link below the folder.
Status LeadsOut(const std::filesystem::path& link);

}  // namespace onecopy::cli
