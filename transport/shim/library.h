// A vendor's library, opened at run time, so that one binary runs where it is and where it is not.
#pragma once

#include <string>
#include <string_view>

#include "onecopy/result.h"

namespace onecopy::shim {

// An open library. Copies refer to the same one. It stays loaded until the process ends: vendors'
// libraries run threads of their own and do not survive being unloaded.
class Library {
 public:
  // Opens `path`, or, where that is empty, `soname` by the system's search order. Any thread.
  // FAILED_PRECONDITION with `missing` (of reasons.h) as its reason if the library does not
  // exist or cannot be loaded; the text is the loader's own. `key` is the library's name in the
  // section [libraries] of the configuration, for the remedy, which says to install `package`.
  static Result<Library> Open(const std::string& path, const std::string& soname,
                              const std::string& key, std::string_view missing,
                              const std::string& package);

  // The path or soname that was opened.
  const std::string& name() const { return name_; }

  // The address of `symbol`; null where the library has none.
  void* Find(const char* symbol) const;

 private:
  Library(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}

  std::string name_;
  void* handle_;
};

}  // namespace onecopy::shim
