#include "transport/os/files/path_owners.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "onecopy/result.h"
#include "transport/os/base/error.h"

namespace onecopy::os {
namespace {

constexpr int kMostLinksOnPath = 40;  // as the kernel's own limit
constexpr uid_t kNobody = 65534;      // as the kernel shows users without a number here

// Whether every user of the machine has a number here: then "nobody" is a user like others.
bool SeesAllUsers() {
  std::ifstream map("/proc/self/uid_map");
  uint64_t inside = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  return map >> inside >> outside >> count && count >= std::numeric_limits<uid_t>::max();
}

bool IsTrusted(uid_t owner) {
  return owner == 0 || owner == ::geteuid() || (owner == kNobody && !SeesAllUsers());
}

bool OthersMayWrite(const struct stat& folder) {
  const bool ours = folder.st_gid == 0 || folder.st_gid == ::getegid();
  return (folder.st_mode & S_IWOTH) != 0 || ((folder.st_mode & S_IWGRP) != 0 && !ours);
}

Status Denied(const std::string& path, const std::string& what) {
  return {Code::kPermissionDenied, reasons::kAccessDenied,
          path + " " + what + ", so other users could replace it",
          "name a folder that you own and that only you can write to"};
}

class OwnersWalk {
 public:
  explicit OwnersWalk(PathTrust trust) : trust_(trust) {}

  Status Run(const std::string& path) {
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::absolute(path, error);
    if (error) return ErrnoStatus(error.value(), "looking at " + path);
    Push(whole.string());
    while (!ahead_.empty()) {
      const std::string name = std::exchange(ahead_.back(), {});
      ahead_.pop_back();
      if (name == "..") {
        at_.erase(std::min(at_.rfind('/'), at_.size()));
        continue;
      }
      struct stat folder {};
      struct stat found {};
      const std::string next = at_ + "/" + name;
      if (::lstat(here(), &folder) != 0 || ::lstat(next.c_str(), &found) != 0) {
        // Where nothing is loaded, what cannot be looked at cannot be used either.
        if (errno == ENOENT || trust_ == PathTrust::kWhereShared) {
          missing_ = true;
          return CheckEnd();
        }
        return ErrnoStatus(errno, "looking at " + next);
      }
      ONECOPY_RETURN_IF_ERROR(Check(folder, next, found));
      if (S_ISLNK(found.st_mode)) {
        ONECOPY_RETURN_IF_ERROR(Follow(next));
      } else {
        at_ = next;
      }
    }
    return CheckEnd();
  }

 private:
  const char* here() const { return at_.empty() ? "/" : at_.c_str(); }

  Status Check(const struct stat& folder, const std::string& path, const struct stat& found) const {
    const bool shared = OthersMayWrite(folder);
    if (shared && (folder.st_mode & S_ISVTX) == 0) {
      return Denied(path, "lies in a folder that others may write to");
    }
    if ((!shared && trust_ == PathTrust::kWhereShared) || IsTrusted(found.st_uid)) {
      return OkStatus();
    }
    return Denied(path, "belongs to uid " + std::to_string(found.st_uid) +
                            (shared ? ", in a folder that all may write to" : ""));
  }

  Status CheckEnd() const {
    struct stat folder {};
    if (::lstat(here(), &folder) != 0 || !S_ISDIR(folder.st_mode)) return OkStatus();
    // What is not there yet will be this user's own.
    const bool trusted =
        missing_ ? (folder.st_mode & S_ISVTX) != 0 : trust_ == PathTrust::kWhereShared;
    if (trusted || !OthersMayWrite(folder)) return OkStatus();
    return Denied(here(), "may be written to by others");
  }

  // The names of a path come next.
  void Push(std::string_view path) {
    if (path.starts_with('/')) at_.clear();
    std::vector<std::string> names;
    while (!path.empty()) {
      const size_t slash = std::min(path.find('/'), path.size());
      const std::string_view name = path.substr(0, slash);
      if (!name.empty() && name != ".") names.emplace_back(name);
      path.remove_prefix(std::min(slash + 1, path.size()));
    }
    ahead_.insert(ahead_.end(), std::make_move_iterator(names.rbegin()),
                  std::make_move_iterator(names.rend()));
  }

  Status Follow(const std::string& link) {
    std::array<char, PATH_MAX> text{};
    const ssize_t length = ::readlink(link.c_str(), text.data(), text.size());
    if (length < 0 || ++links_ > kMostLinksOnPath) {
      return ErrnoStatus(length < 0 ? errno : ELOOP, "following " + link);
    }
    Push({text.data(), static_cast<size_t>(length)});
    return OkStatus();
  }

  const PathTrust trust_;
  std::string at_;                  // reached so far; empty: the root
  std::vector<std::string> ahead_;  // the next name last
  bool missing_ = false;            // the next name
  int links_ = 0;
};

}  // namespace

Status CheckPathOwners(const std::string& path, PathTrust trust) {
  return OwnersWalk(trust).Run(path);
}

}  // namespace onecopy::os
