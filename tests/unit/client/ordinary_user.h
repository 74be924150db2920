// The rights of an ordinary user, in tests that root runs.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace onecopy::testing {

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
