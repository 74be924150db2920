#include "client/cli/unpack.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "client/cli/copy_file.h"
#include "client/cli/copy_summary.h"
#include "client/cli/deadline.h"
#include "client/cli/file_set.h"
#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "transport/os/error.h"
#include "transport/os/new_file.h"
#include "transport/os/unique_fd.h"

namespace onecopy::cli {
namespace {

namespace fs = std::filesystem;
using Kind = ParsedEndpoint::Kind;

constexpr uint64_t kFirstLook = 4096;

// The beginning of a buffer, through memory of this process.
Result<std::string> Beginning(Client& client, const ParsedEndpoint& buffer, uint64_t bytes,
                              Deadline& deadline) {
  ONECOPY_ASSIGN_OR_RETURN(FileCopyOptions options, deadline.Next());
  options.sync = false;
  const os::UniqueFd fd(::memfd_create("onecopy-index", MFD_CLOEXEC));
  if (!fd) return os::ErrnoStatus(errno, "making room for the index");
  Endpoint beginning = buffer.ToEndpoint();
  beginning.offset_bytes = 0;
  beginning.bytes = bytes;
  ONECOPY_RETURN_IF_ERROR(
      CopyBufferToFile(client, beginning, {"the index", fd.get(), 0, bytes}, options).status());
  std::string text(bytes, '\0');
  if (::pread(fd.get(), text.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    return os::ErrnoStatus(errno, "reading the index");
  }
  return text;
}

Result<FileSet> SetIn(Client& client, const MoveEnds& ends, Deadline& deadline) {
  const ParsedEndpoint& source = ends.source;
  ONECOPY_ASSIGN_OR_RETURN(const BufferInfo buffer, client.GetBuffer(source.node, source.name));
  ONECOPY_ASSIGN_OR_RETURN(std::string index,
                           Beginning(client, source, std::min(kFirstLook, buffer.bytes), deadline));
  const uint64_t length = IndexBytes(index);
  if (length == 0 || length > buffer.bytes) {
    return Status(Code::kInvalidArgument, reasons::kBadFormat,
                  Quote(source.typed) + " has no index of files, and " +
                      Quote(ends.destination.typed) + " is a folder",
                  "name a file: " + ShellWord(ends.destination.path + "/" + source.name));
  }
  if (length > index.size()) {
    ONECOPY_ASSIGN_OR_RETURN(index, Beginning(client, source, length, deadline));
  }
  Result<FileSet> set = ReadIndex(index, buffer.bytes);
  if (!set.ok()) return set.status().WithContext(Quote(source.typed));
  return set;
}

// Makes `folder`, and below it those of that name. One that is a link may be another user's choice.
Status MakeFolders(const fs::path& folder, const fs::path& name) {
  fs::path at = folder;
  std::error_code error;
  fs::create_directories(at, error);
  if (error) return os::ErrnoStatus(error.value(), "creating folder " + Quote(at.string()));
  for (const fs::path& part : name) {
    at /= part;
    fs::create_directory(at, error);
    if (error) return os::ErrnoStatus(error.value(), "creating folder " + Quote(at.string()));
    if (fs::is_symlink(at, error)) {
      return {Code::kFailedPrecondition, reasons::kAccessDenied,
              Quote(at.string()) + " is a symbolic link, and the files would leave the folder",
              "name another folder, or remove the link"};
    }
  }
  return OkStatus();
}

// Without a transfer, which has at least one byte; in the place of a file of that name, whose other
// names keep their bytes.
Status MakeEmpty(const fs::path& path, bool sync) {
  const std::string name = path.filename().string();
  os::UniqueFd folder(::open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return os::ErrnoStatus(errno, "creating " + Quote(path.string()));
  os::UniqueFd there(::openat(folder.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts {};
  if (there && (::fstat(there.get(), &facts) != 0 || !S_ISREG(facts.st_mode))) {
    return {Code::kFailedPrecondition, reasons::kBadEndpoint,
            Quote(path.string()) + " is there, and is not a regular file",
            "name another folder, or remove it"};
  }
  ONECOPY_ASSIGN_OR_RETURN(
      os::NewFile made,
      os::NewFile::Make(std::move(folder), name, Quote(path.string()), {.mode = 0666}));
  if (there) {
    made.TakeAfter({std::move(there), facts.st_mode & 07777, facts.st_uid, facts.st_gid});
  }
  ONECOPY_RETURN_IF_ERROR(made.Settle(sync));
  return made.Name(sync);
}

// Who may read the file may also run it.
Status MakeExecutable(const std::string& path, bool sync) {
  const os::UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      ::fchmod(file.get(), (facts.st_mode | (facts.st_mode & 0444) >> 2) & 07777) != 0 ||
      (sync && ::fsync(file.get()) != 0)) {
    return os::ErrnoStatus(errno, "making " + Quote(path) + " executable");
  }
  return OkStatus();
}

}  // namespace

bool IsUnpack(const MoveEnds& ends) {
  const ParsedEndpoint& to = ends.destination;
  if (ends.source.kind != Kind::kBuffer || ends.source.offset_bytes || ends.source.bytes) {
    return false;
  }
  if (to.kind != Kind::kFile || to.offset_bytes || to.bytes || to.path.empty()) return false;
  std::error_code error;
  return to.path.back() == '/' || fs::is_directory(to.path, error);
}

Status Unpack(Session& session, Client& client, const MoveEnds& ends,
              const FileCopyOptions& options) {
  Deadline deadline(options);
  ONECOPY_ASSIGN_OR_RETURN(const FileSet set, SetIn(client, ends, deadline));
  const fs::path folder(ends.destination.path);
  CopySummary summary(session, ends.destination.typed);
  for (const std::string& name : set.folders) {
    ONECOPY_RETURN_IF_ERROR(MakeFolders(folder, name));
  }
  for (const FileInSet& file : set.files) {
    ONECOPY_RETURN_IF_ERROR(MakeFolders(folder, fs::path(file.name).parent_path()));
    const std::string path = (folder / file.name).string();
    std::error_code error;
    if (fs::is_symlink(path, error)) {
      return {Code::kFailedPrecondition, reasons::kAccessDenied,
              Quote(path) + " is a symbolic link, and the file would leave the folder",
              "name another folder, or remove the link"};
    }
    if (file.bytes == 0) {
      ONECOPY_RETURN_IF_ERROR(MakeEmpty(path, options.sync));
      if (file.executable) ONECOPY_RETURN_IF_ERROR(MakeExecutable(path, options.sync));
      continue;
    }
    MoveEnds one = ends;
    one.source.offset_bytes = file.offset_bytes;
    one.source.bytes = file.bytes;
    one.source.typed += "@" + std::to_string(file.offset_bytes) + "+" + std::to_string(file.bytes);
    one.destination.path = one.destination.typed = path;
    ONECOPY_ASSIGN_OR_RETURN(const FileCopyOptions now, deadline.Next());
    Result<Move> move = CopyFile(client, one, now);
    if (!move.ok()) return move.status().WithContext(Quote(path));
    if (file.executable) ONECOPY_RETURN_IF_ERROR(MakeExecutable(path, options.sync));
    summary.Add(*std::move(move), 1);
  }
  Json listed = Json::array();
  for (const FileInSet& file : set.files) {
    listed.push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  summary.End({{"files", std::move(listed)}});
  if (!session.json() && !session.quiet()) {
    session.out() << set.files.size() << " files are in " << Printable(ends.destination.typed)
                  << '\n';
  }
  return OkStatus();
}

}  // namespace onecopy::cli
