// The folder where clients find this daemon: its sockets and the lock that makes it the only one.
#pragma once

#include <string>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy {

// Holds the folder's lock for as long as it lives; the folder and the lock's file stay. While the
// lock is held, socket files in the folder are this daemon's own, or stale.
class RunDir {
 public:
  // `asked` empty: /run/onecopy where that can be used, else $XDG_RUNTIME_DIR/onecopy. The folder
  // is made where it is missing, for all to enter (0755).
  //
  // UNAVAILABLE where another daemon serves in it, with its pid; PERMISSION_DENIED where it
  // cannot be written, or others could replace what is in it; INVALID_ARGUMENT where the sockets'
  // paths would be too long.
  static Result<RunDir> Claim(const std::string& asked);

  const std::string& path() const { return path_; }
  std::string ApiSocket() const;
  std::string AttachSocket() const;

 private:
  RunDir(std::string path, os::UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  os::UniqueFd lock_;
};

}  // namespace onecopy
