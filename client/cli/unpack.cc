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
#include "client/cli/file_set.h"
#include "client/cli/output/escape.h"
#include "client/cli/target_folder.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/files/new_file.h"

namespace onecopy::cli {
namespace {

namespace fs = std::filesystem;
using Kind = ParsedEndpoint::Kind;

constexpr uint64_t kFirstLook = 4096;

// The beginning of a buffer, through memory of this process.
Result<std::string> Beginning(Client& client, const ParsedEndpoint& buffer, uint64_t bytes,
                              const Deadline& deadline, const FileCopyOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(FileCopyOptions now, deadline.Next(options));
  now.sync = false;
  const os::UniqueFd fd(::memfd_create("onecopy-index", MFD_CLOEXEC));
  if (!fd) return os::ErrnoStatus(errno, "making room for the index");
  Endpoint beginning = buffer.ToEndpoint();
  beginning.offset_bytes = 0;
  beginning.bytes = bytes;
  ONECOPY_RETURN_IF_ERROR(
      CopyBufferToFile(client, beginning, {"the index", fd.get(), 0, bytes}, now).status());
  std::string text(bytes, '\0');
  if (::pread(fd.get(), text.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    return os::ErrnoStatus(errno, "reading the index");
  }
  return text;
}

Result<FileSet> SetIn(Client& client, const MoveEnds& ends, const Deadline& deadline,
                      const FileCopyOptions& options) {
  const ParsedEndpoint& source = ends.source;
  ONECOPY_ASSIGN_OR_RETURN(const BufferInfo buffer, deadline.Within([&] {
    return client.GetBuffer(source.node, source.name);
  }));
  ONECOPY_ASSIGN_OR_RETURN(
      std::string index,
      Beginning(client, source, std::min(kFirstLook, buffer.bytes), deadline, options));
  const uint64_t length = IndexBytes(index);
  if (length == 0 || length > buffer.bytes) {
    return Status(Code::kInvalidArgument, reasons::kBadFormat,
                  Quote(source.typed) + " has no index of files, and " +
                      Quote(ends.destination.typed) + " is a folder",
                  "name a file: " + ShellWord(ends.destination.path + "/" + source.name));
  }
  if (length > index.size()) {
    ONECOPY_ASSIGN_OR_RETURN(index, Beginning(client, source, length, deadline, options));
  }
  Result<FileSet> set = ReadIndex(index, buffer.bytes);
  if (!set.ok()) return set.status().WithContext(Quote(source.typed));
  return set;
}

// Without a transfer, which has at least one byte; in the place of a file of that name, whose other
// names keep their bytes.
Status MakeEmpty(os::UniqueFd folder, const FileInSet& file, const fs::path& path, bool sync) {
  const std::string name = path.filename().string();
  os::UniqueFd there(::openat(folder.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts {};
  if (there && ::fstat(there.get(), &facts) != 0) {
    return os::ErrnoStatus(errno, "looking at " + Quote(path.string()));
  }
  if (there && S_ISLNK(facts.st_mode)) return LeadsOut(path);
  if (there && !S_ISREG(facts.st_mode)) {
    return {Code::kFailedPrecondition, reasons::kBadEndpoint,
            Quote(path.string()) + " is there, and is not a regular file",
            "name another folder, or remove it"};
  }
  const mode_t mode = os::WithExecution(0666, file.executable);
  ONECOPY_ASSIGN_OR_RETURN(
      os::NewFile made,
      os::NewFile::Make(std::move(folder), name, Quote(path.string()), {.mode = mode}));
  if (there) {
    const uint32_t taken = os::WithExecution(facts.st_mode & 07777, file.executable);
    made.TakeAfter({std::move(there), taken, facts.st_uid, facts.st_gid});
  }
  ONECOPY_RETURN_IF_ERROR(made.Settle(sync));
  return made.Name(sync);
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

Status Unpack(Session& session, Client& client, const MoveEnds& ends, const Deadline& deadline,
              const FileCopyOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(const FileSet set, SetIn(client, ends, deadline, options));
  const fs::path path(ends.destination.path);
  ONECOPY_ASSIGN_OR_RETURN(const TargetFolder target, TargetFolder::Make(path, options.sync));
  CopySummary summary(session, ends.destination.typed);
  for (const std::string& name : set.folders) {
    ONECOPY_RETURN_IF_ERROR(target.Below(name).status());
  }
  for (const FileInSet& file : set.files) {
    const fs::path whole = path / file.name;
    ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd folder, target.Below(fs::path(file.name).parent_path()));
    if (file.bytes == 0) {
      ONECOPY_RETURN_IF_ERROR(MakeEmpty(std::move(folder), file, whole, options.sync));
      continue;
    }
    ParsedEndpoint source = ends.source;
    source.offset_bytes = file.offset_bytes;
    source.bytes = file.bytes;
    source.typed += "@" + std::to_string(file.offset_bytes) + "+" + std::to_string(file.bytes);
    LocalFile to;
    to.path = whole.string();
    to.folder_fd = folder.get();
    to.executable = file.executable;
    ONECOPY_ASSIGN_OR_RETURN(const FileCopyOptions now, deadline.Next(options));
    Result<Move> move = CopyBufferTo(client, source, to, now);
    if (!move.ok()) return move.status().WithContext(Quote(to.path));
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
