#include "transport/os/files/look_beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "transport/core/base/file_path.h"
#include "transport/os/base/error.h"

namespace onecopy::os {
namespace {

constexpr int kTries = 100;           // of a look that something was renamed under
constexpr int kMostLinks = 40;        // as the kernel's own limit
constexpr size_t kMostFolders = 128;  // that are held open, as a link's ".." may go back to them
constexpr int kLook = O_PATH | O_CLOEXEC | O_NOFOLLOW;

// The same without openat2. It goes down name by name, and up again to folders that it came
// through, never by what ".." stands for: so it stays beneath, whatever is moved meanwhile.
class BeneathWalk {
 public:
  BeneathWalk(int folder, Links links) : folder_(folder), links_(links) {}

  UniqueFd Run(const std::string& path) {
    Push(path);
    while (!ahead_.empty()) {
      const std::string name = std::exchange(ahead_.back(), {});
      ahead_.pop_back();
      if (name == ".") continue;  // this and the next of a link alone
      if (name == "..") {
        if (through_.empty()) return Failed(EXDEV);
        through_.pop_back();
        continue;
      }
      UniqueFd found(::openat(here(), name.c_str(), kLook));
      struct stat facts {};
      if (!found || ::fstat(found.get(), &facts) != 0) return {};
      if (S_ISLNK(facts.st_mode) && (links_ == Links::kBeneath || !ahead_.empty())) {
        if (!Follow(found)) return {};
      } else if (ahead_.empty()) {
        return found;
      } else if (!S_ISDIR(facts.st_mode)) {
        return Failed(ENOTDIR);
      } else {
        if (links_ == Links::kNone) through_.clear();  // nothing leads back
        if (through_.size() >= kMostFolders) return Failed(ELOOP);
        through_.push_back(std::move(found));
      }
    }
    // A link to a folder above: that itself.
    return UniqueFd(::openat(here(), ".", kLook));
  }

 private:
  static UniqueFd Failed(int error) {
    errno = error;
    return {};
  }

  int here() const { return through_.empty() ? folder_ : through_.back().get(); }

  // The names of a path come next.
  void Push(std::string_view path) {
    std::vector<std::string> names;
    for (bool more = true; more;) {
      const size_t slash = path.find('/');
      const std::string_view name = path.substr(0, slash);
      names.emplace_back(name.empty() ? "." : name);
      more = slash != std::string_view::npos;
      if (more) path.remove_prefix(slash + 1);
    }
    ahead_.insert(ahead_.end(), std::make_move_iterator(names.rbegin()),
                  std::make_move_iterator(names.rend()));
  }

  bool Follow(const UniqueFd& link) {
    std::array<char, PATH_MAX> text{};
    const ssize_t length = ::readlinkat(link.get(), "", text.data(), text.size());
    if (length < 0) return false;
    errno = ELOOP;
    if (links_ == Links::kNone || ++followed_ > kMostLinks) return false;
    const std::string_view to(text.data(), static_cast<size_t>(length));
    errno = EXDEV;
    if (to.starts_with('/')) return false;
    Push(to);
    return true;
  }

  const int folder_;
  const Links links_;
  std::vector<UniqueFd> through_;   // the folders below `folder_` on the way
  std::vector<std::string> ahead_;  // the next one last
  int followed_ = 0;
};

}  // namespace

UniqueFd LookBeneath(int folder, const std::string& path, Links links) {
  if (!IsShortestPath("/" + path)) {
    errno = EXDEV;
    return {};
  }
  open_how how{};
  how.flags = kLook;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  if (links == Links::kBeneath) {
    how.flags &= ~uint64_t{O_NOFOLLOW};
    how.resolve &= ~uint64_t{RESOLVE_NO_SYMLINKS};
  }
  for (int i = 0; i < kTries; ++i) {
    const long fd = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    if (errno == ENOSYS || errno == EPERM) break;
    // Something was renamed somewhere while a link's ".." was followed; and again and again.
    if (errno != EAGAIN) return {};
  }
  return BeneathWalk(folder, links).Run(path);
}

Status FailureBeneath(int error, const std::string& doing, const std::string& name,
                      const std::string& remedy) {
  if (error == ELOOP || error == EXDEV) {
    return {Code::kPermissionDenied, reasons::kAccessDenied,
            name + " contains a symbolic link, which is not followed",
            "name the file without the link; or let the export of its folder follow links that "
            "stay below it: follow = \"beneath\""};
  }
  return ErrnoStatus(error == ENOTDIR ? ENOENT : error, doing + " " + name, remedy);
}

}  // namespace onecopy::os
