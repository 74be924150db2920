// A folder that goes with its object, and all that is in it.
#pragma once

#include <memory>
#include <string>

#include "onecopy/result.h"

namespace onecopy::bench {

class TempFolder {
 public:
  // In $TMPDIR or /tmp, for this user alone.
  static Result<std::unique_ptr<TempFolder>> Create();
  static Result<std::unique_ptr<TempFolder>> CreateIn(const std::string& parent);
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TempFolder(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

}  // namespace onecopy::bench
