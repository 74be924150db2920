#include "client/lib/files/named_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::client {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel's own limit
constexpr int kLook = O_PATH | O_NOFOLLOW | O_CLOEXEC;

class Walk {
 public:
  explicit Walk(const std::string& path) : path_(path) {}

  Result<NamedFile> Run() {
    ONECOPY_RETURN_IF_ERROR(StartAt(path_.starts_with('/') ? "/" : "."));
    Push(path_);
    while (!ahead_.empty()) {
      const Item next = std::move(ahead_.back());
      ahead_.pop_back();
      ONECOPY_RETURN_IF_ERROR(next.name.empty() ? EndLink(next) : Step(next.name));
    }
    return std::move(at_);
  }

 private:
  // A name to look up, or, without one, the end of what a link stood for.
  struct Item {
    std::string name;
    std::optional<uid_t> must_own = {};  // the link's owner, where that is not trusted
  };

  Status Failed() const { return os::ErrnoStatus(errno, "looking at " + path_); }

  Status Denied(uid_t owner, const std::string& why) const {
    return {Code::kPermissionDenied, reasons::kAccessDenied,
            path_ + " contains a symbolic link of uid " + std::to_string(owner) + ", " + why,
            "name the file without that link"};
  }

  Status StartAt(const char* folder) {
    at_ = {};
    at_.file = os::UniqueFd(::open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
    return at_.file ? OkStatus() : Failed();
  }

  // What a path is made of comes next, its first name first.
  void Push(std::string_view path) {
    std::vector<Item> names;
    while (!path.empty()) {
      const size_t slash = std::min(path.find('/'), path.size());
      if (slash > 0) names.push_back({std::string(path.substr(0, slash))});
      path.remove_prefix(std::min(slash + 1, path.size()));
    }
    ahead_.insert(ahead_.end(), std::make_move_iterator(names.rbegin()),
                  std::make_move_iterator(names.rend()));
  }

  void Enter(const std::string& name, os::UniqueFd found) {
    at_.folder = std::move(at_.file);
    at_.name = name;
    at_.file = std::move(found);
  }

  Status Step(const std::string& name) {
    if (!at_.file) {
      errno = ENOENT;
      return Failed();
    }
    // First as a folder, which mounts what an automounter has there.
    os::UniqueFd found(::openat(at_.file.get(), name.c_str(), kLook | O_DIRECTORY));
    if (!found && errno == ENOTDIR) {
      found = os::UniqueFd(::openat(at_.file.get(), name.c_str(), kLook));
    }
    if (!found) {
      if (errno != ENOENT) return Failed();
      Enter(name, {});
      return OkStatus();
    }
    struct stat facts {};
    if (::fstat(found.get(), &facts) != 0) return Failed();
    if (S_ISLNK(facts.st_mode)) return Follow(name, found, facts);
    Enter(name, std::move(found));
    return OkStatus();
  }

  Status Follow(const std::string& name, const os::UniqueFd& link, const struct stat& facts) {
    if (++links_ > kMaxLinks) {
      errno = ELOOP;
      return Failed();
    }
    std::array<char, PATH_MAX> text{};
    const ssize_t length = ::readlinkat(link.get(), "", text.data(), text.size());
    struct stat folder {};
    struct statfs system {};
    if (length < 0 || ::fstat(at_.file.get(), &folder) != 0 ||
        ::fstatfs(link.get(), &system) != 0) {
      return Failed();
    }
    const std::string_view to(text.data(), static_cast<size_t>(length));
    const uid_t owner = facts.st_uid;
    Item end;
    if (owner != 0 && owner != ::geteuid()) {
      const bool for_all = (folder.st_mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH);
      if (for_all && owner != folder.st_uid) {
        return Denied(owner, "in a folder that all users may write to");
      }
      if (::geteuid() == 0) end.must_own = owner;
    }
    ahead_.push_back(std::move(end));
    if (system.f_type == PROC_SUPER_MAGIC && !to.starts_with('/')) {
      if (const auto found = KernelsOwn(name); found >= 0) {
        at_ = {{}, {}, os::UniqueFd(found)};
        return OkStatus();
      }
      return Failed();
    }
    if (to.starts_with('/')) ONECOPY_RETURN_IF_ERROR(StartAt("/"));
    Push(to);
    return OkStatus();
  }

  // What a link of /proc stands for whose text is not a path: "pipe:[4711]".
  int KernelsOwn(const std::string& name) const {
    return ::openat(at_.file.get(), name.c_str(), O_PATH | O_CLOEXEC);
  }

  Status EndLink(const Item& end) const {
    if (!at_.file) {
      return {Code::kInvalidArgument, reasons::kBadArgument,
              path_ + " is a symbolic link to a file that does not exist",
              "name the file to be written"};
    }
    if (!end.must_own) return OkStatus();
    struct stat facts {};
    if (::fstat(at_.file.get(), &facts) != 0) return Failed();
    if (facts.st_uid == *end.must_own) return OkStatus();
    return Denied(*end.must_own, "which root follows only to what belongs to that user");
  }

  const std::string& path_;
  NamedFile at_;             // reached so far
  std::vector<Item> ahead_;  // the next one last
  int links_ = 0;
};

}  // namespace

os::UniqueFd NamedFile::Reopen(int flags) const {
  flags |= O_CLOEXEC | O_NOCTTY;
  if (!folder) {
    const std::string link = "/proc/self/fd/" + std::to_string(file.get());
    return os::UniqueFd(::open(link.c_str(), flags));
  }
  os::UniqueFd opened(::openat(folder.get(), name.c_str(), flags | O_NOFOLLOW));
  struct stat now {};
  struct stat found {};
  if (!opened || ::fstat(opened.get(), &now) != 0 || ::fstat(file.get(), &found) != 0) {
    return {};
  }
  if (now.st_dev == found.st_dev && now.st_ino == found.st_ino) return opened;
  opened.Reset();
  errno = ESTALE;
  return {};
}

Status CheckPath(const std::string& path) {
  if (path.find('\0') == std::string::npos) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadName,
          "the path " + path.substr(0, path.find('\0')) + " contains a zero byte",
          "remove the zero byte"};
}

Result<NamedFile> FindFileIn(int folder, const std::string& path) {
  ONECOPY_RETURN_IF_ERROR(CheckPath(path));
  NamedFile found;
  found.folder = os::UniqueFd::DuplicateOf(folder);
  found.name = path.substr(path.rfind('/') + 1);
  if (!found.folder) return os::ErrnoStatus(errno, "looking at " + path);
  found.file = os::UniqueFd(::openat(folder, found.name.c_str(), kLook));
  if (!found.file && errno != ENOENT) return os::ErrnoStatus(errno, "looking at " + path);
  struct stat facts {};
  if (!found.file) return found;
  if (::fstat(found.file.get(), &facts) != 0) return os::ErrnoStatus(errno, "looking at " + path);
  if (!S_ISLNK(facts.st_mode)) return found;
  return Status(Code::kFailedPrecondition, reasons::kAccessDenied,
                path + " is a symbolic link, and the file would leave its folder",
                "name another folder, or remove the link");
}

Result<NamedFile> FindNamedFile(const std::string& path) {
  ONECOPY_RETURN_IF_ERROR(CheckPath(path));
  return Walk(path).Run();
}

}  // namespace onecopy::client
