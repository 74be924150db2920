#include "client/cli/target_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kLook = O_PATH | O_DIRECTORY | O_CLOEXEC;

enum class Links { kFollow, kRefuse };

Status Failed(const std::string& what, const fs::path& path) {
  return os::ErrnoStatus(errno, what + " folder " + Quote(path.string()));
}

Status Sync(int folder, const fs::path& path) {
  const os::UniqueFd open(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return open && ::fsync(open.get()) == 0 ? OkStatus() : Failed("syncing to disk:", path);
}

// The folder `name` in the one that is open, which is made where there is none.
Result<os::UniqueFd> Enter(int folder, const fs::path& name, const fs::path& path, Links links,
                           bool sync) {
  const int flags = kLook | (links == Links::kRefuse ? O_NOFOLLOW : 0);
  os::UniqueFd found(::openat(folder, name.c_str(), flags));
  if (found) return found;
  const bool missing = errno == ENOENT;
  if (missing && ::mkdirat(folder, name.c_str(), 0777) != 0 && errno != EEXIST) {
    return Failed("creating", path);
  }
  if (missing) found = os::UniqueFd(::openat(folder, name.c_str(), kLook | O_NOFOLLOW));
  if (found) {
    if (sync) ONECOPY_RETURN_IF_ERROR(Sync(found.get(), path));
    if (sync) ONECOPY_RETURN_IF_ERROR(Sync(folder, path.parent_path()));
    return found;
  }
  const int error = errno;
  struct stat facts {};
  if (::fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(facts.st_mode) &&
      (links == Links::kRefuse || missing)) {
    return LeadsOut(path);
  }
  errno = error;
  return Failed("creating", path);
}

}  // namespace

Status LeadsOut(const fs::path& link) {
  return {Code::kFailedPrecondition, reasons::kAccessDenied,
          Quote(link.string()) + " is a symbolic link, and the files would leave the folder",
          "name another folder, or remove the link"};
}

Result<TargetFolder> TargetFolder::Make(const fs::path& path, bool sync) {
  TargetFolder made(path, sync);
  fs::path at = path.is_absolute() ? "/" : "";
  made.folder_ = os::UniqueFd(::open(path.is_absolute() ? "/" : ".", kLook));
  if (!made.folder_) return Failed("opening", at);
  for (const fs::path& part : path.relative_path()) {
    if (part.empty()) continue;  // after the last slash
    at /= part;
    ONECOPY_ASSIGN_OR_RETURN(made.folder_,
                             Enter(made.folder_.get(), part, at, Links::kFollow, sync));
  }
  return made;
}

Result<os::UniqueFd> TargetFolder::Below(const fs::path& name) const {
  os::UniqueFd folder = os::UniqueFd::DuplicateOf(folder_.get());
  if (!folder) return Failed("opening", path_);
  fs::path at = path_;
  for (const fs::path& part : name) {
    at /= part;
    ONECOPY_ASSIGN_OR_RETURN(folder, Enter(folder.get(), part, at, Links::kRefuse, sync_));
  }
  return folder;
}

}  // namespace onecopy::cli
