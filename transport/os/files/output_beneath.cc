#include "transport/os/files/output_beneath.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/os/files/descriptor_kind.h"

namespace onecopy::os {
namespace {

constexpr int kFlags = O_NOCTTY | O_CLOEXEC;

std::string SelfPath(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace

Result<std::shared_ptr<OutputBeneath>> OutputBeneath::Open(const std::string& root,
                                                           const std::string& path,
                                                           const std::string& name,
                                                           const Ask& ask) {
  ONECOPY_RETURN_IF_ERROR(CheckWithin({ask.offset_bytes, ask.bytes},
                                      static_cast<uint64_t>(std::numeric_limits<off_t>::max()),
                                      "any file"));
  std::shared_ptr<OutputBeneath> output(new OutputBeneath(name));
  UniqueFd top(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!top) return FailureBeneath(errno, "writing", name);
  const size_t slash = path.rfind('/');
  output->final_name_ = path.substr(slash == std::string::npos ? 0 : slash + 1);
  output->folder_ = slash == std::string::npos
                        ? std::move(top)
                        : LookBeneath(top.get(), path.substr(0, slash), ask.links);
  if (!output->folder_) {
    return FailureBeneath(errno, "writing", name,
                          errno == ENOENT ? "create its folder there first" : "");
  }
  ONECOPY_RETURN_IF_ERROR(output->Inspect(ask));
  ONECOPY_RETURN_IF_ERROR(ask.in_place ? output->OpenInPlace(ask) : output->OpenNew(ask));
  return output;
}

Status OutputBeneath::Inspect(const Ask& ask) {
  struct stat facts {};
  if (::fstat(folder_.get(), &facts) != 0) return FailureBeneath(errno, "writing", name_);
  if (!S_ISDIR(facts.st_mode)) {
    return FailureBeneath(S_ISLNK(facts.st_mode) ? ELOOP : ENOTDIR, "writing", name_);
  }
  UniqueFd found = LookBeneath(folder_.get(), final_name_);
  if (!found && errno == ENOENT) {
    if (!ask.in_place) return OkStatus();
    return FailureBeneath(ENOENT, "writing a range of", name_,
                          "leave out the range to write a new file");
  }
  if (!found || ::fstat(found.get(), &facts) != 0) return FailureBeneath(errno, "writing", name_);
  if (S_ISLNK(facts.st_mode)) return FailureBeneath(ELOOP, "writing", name_);
  if (!S_ISREG(facts.st_mode)) {
    return {Code::kInvalidArgument, reasons::kBadHandle,
            name_ + " is not a regular file: it is " + DescribeDescriptor(found.get()),
            "name a regular file, or one that does not exist yet"};
  }
  // As the kernel would judge who opens it: a folder's right alone is none on the files in it.
  if (::faccessat(AT_FDCWD, SelfPath(found.get()).c_str(), W_OK, AT_EACCESS) != 0) {
    return FailureBeneath(errno, "writing", name_);
  }
  found_ = {std::move(found), facts.st_mode & 0777, facts.st_uid, facts.st_gid};
  if (!ask.in_place) return OkStatus();
  if (facts.st_nlink != 1 || (facts.st_mode & (S_ISUID | S_ISGID)) != 0) {
    const std::string why = facts.st_nlink != 1 ? "it has other names (hard links)"
                                                : "it has a set-user-ID or set-group-ID bit";
    return {Code::kPermissionDenied, reasons::kAccessDenied,
            name_ + " is not written in place: " + why, "write the whole file"};
  }
  return OkStatus();
}

Status OutputBeneath::OpenInPlace(const Ask& ask) {
  // That very file, whatever its name stands for by now.
  const int flags = kFlags | (ask.read_back ? O_RDWR : O_WRONLY);
  plain_ = UniqueFd(::open(SelfPath(found_->file.get()).c_str(), flags));
  if (!plain_) return FailureBeneath(errno, "opening", name_);
  direct_ = UniqueFd(::open(SelfPath(found_->file.get()).c_str(), flags | O_DIRECT));
  found_.reset();
  return ask.only_look ? OkStatus() : ReserveSpace(fd(), ask.offset_bytes, ask.bytes, name_);
}

Status OutputBeneath::OpenNew(const Ask& ask) {
  ONECOPY_ASSIGN_OR_RETURN(
      NewFile made, NewFile::Make(std::move(folder_), final_name_, name_, {.named = ask.named}));
  new_.emplace(std::move(made));
  if (found_) {
    new_->TakeAfter(*std::exchange(found_, std::nullopt));
  } else {
    new_->SetMode(ask.mode);
  }
  direct_ = UniqueFd(::open(SelfPath(fd()).c_str(), kFlags | O_RDWR | O_DIRECT));
  return ask.only_look ? OkStatus() : new_->Reserve(ask.bytes);
}

Status OutputBeneath::Commit(bool sync, const std::atomic<bool>& stop) {
  const Status stopped(Code::kCancelled, reasons::kCancelled, "before " + name_ + " had its name");
  if (stop) return stopped;
  if (!new_) return SettleFile(fd(), sync, name_);
  ONECOPY_RETURN_IF_ERROR(new_->Settle(sync));
  return stop ? stopped : new_->Name(sync);
}

}  // namespace onecopy::os
