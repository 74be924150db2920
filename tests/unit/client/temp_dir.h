// A folder of a test, removed in the end.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace onecopy::testing {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "onecopy-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Makes this process, where it is root's, an ordinary user's while it lives; the folder becomes
// theirs.
class AsOrdinaryUser {
 public:
  explicit AsOrdinaryUser(const std::string& folder) : root_(::geteuid() == 0) {
    if (!root_) return;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      Give(entry.path());
    }
    Give(folder);
    if (::seteuid(kUid) != 0) throw std::runtime_error("seteuid");
  }
  ~AsOrdinaryUser() {
    if (root_ && ::seteuid(0) != 0) std::abort();
  }
  AsOrdinaryUser(const AsOrdinaryUser&) = delete;
  AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;

 private:
  static constexpr uid_t kUid = 12'345;

  static void Give(const std::string& path) {
    if (::lchown(path.c_str(), kUid, kUid) != 0) throw std::runtime_error("lchown " + path);
  }

  const bool root_;
};

}  // namespace onecopy::testing
