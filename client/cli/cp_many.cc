#include "client/cli/cp_many.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "client/cli/copy_file.h"
#include "client/cli/copy_summary.h"
#include "client/cli/made_buffer.h"
#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "transport/core/base/name.h"
#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::cli {
namespace {

using Kind = ParsedEndpoint::Kind;

// From this size on a file has a request of its own, whose costs are then little beside its bytes:
// the daemon reads it, without a pass of this process.
constexpr uint64_t kLargeFile = uint64_t{1} << 20;

ParsedEndpoint FileEnd(const FileInSet& file) {
  ParsedEndpoint end;
  end.kind = Kind::kFile;
  end.typed = file.path;
  end.path = file.path;
  // What was looked at: a file that grows meanwhile must not reach into its neighbour's place.
  end.offset_bytes = 0;
  end.bytes = file.bytes;
  return end;
}

// Whether it goes with others by one request. A policy about the way is about each file's own.
bool MayShare(const FileInSet& file, const FileCopyOptions& options) {
  return file.bytes > 0 && file.bytes < kLargeFile && options.policy == Policy{};
}

// "west:", ":"; the node's name.
std::optional<std::string> NodeAlone(const std::string& typed) {
  if (typed.empty() || typed.back() != ':') return std::nullopt;
  std::string node = typed.substr(0, typed.size() - 1);
  if (!node.empty() && !IsName(node)) return std::nullopt;
  return node;
}

// The copy of one file, which a failure names.
Result<Move> CopyNext(Client& client, const MoveEnds& ends, const Deadline& deadline,
                      const FileCopyOptions& options) {
  const Result<FileCopyOptions> now = deadline.Next(options);
  Result<Move> move = now.ok() ? CopyFile(client, ends, *now) : now.status();
  if (!move.ok()) return move.status().WithContext(ends.source.path);
  return move;
}

using ByName = std::map<std::string, const FileInSet*>;

// A buffer for each file, with all calls under way together; `made` is what there is, also where
// some fail.
Status MakeBuffers(Client& client, const std::string& node, const ByName& by_name,
                   const std::string& memory, std::vector<BufferInfo>& made) {
  std::vector<CreateBufferRequest> requests;
  for (const auto& [name, file] : by_name) {
    const ParsedEndpoint source = FileEnd(*file);
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(client, source));
    requests.push_back({.name = name, .bytes = bytes, .memory = memory, .node = node});
  }
  Status failure;
  for (Result<BufferInfo>& one : client.CreateBuffers(requests)) {
    if (one.ok()) {
      made.push_back(std::move(*one));
    } else if (failure.ok()) {
      failure = AdviseOnCreation(one.status());
    }
  }
  return failure;
}

// Those that small files go to by shared requests, then the others, one after the other.
Status CopyAll(Session& session, Client& client, const std::string& node, const ByName& by_name,
               const Deadline& deadline, const FileCopyOptions& options) {
  CopySummary summary(session, node + ":");
  std::vector<FileToBuffer> small;
  for (const auto& [name, file] : by_name) {
    if (!MayShare(*file, options)) continue;
    small.push_back({ToLocalFile(FileEnd(*file), true), {.node = node, .buffer = name}});
  }
  if (small.size() > 1) {
    ONECOPY_ASSIGN_OR_RETURN(const FileCopyOptions now, deadline.Next(options));
    ONECOPY_ASSIGN_OR_RETURN(Move move, CopyFilesToTheirs(client, small, node + ":", now));
    summary.Add(std::move(move), small.size());
  }
  for (const auto& [name, file] : by_name) {
    if (small.size() > 1 && MayShare(*file, options)) continue;
    MoveEnds ends;
    ends.source = FileEnd(*file);
    ends.destination.node = node;
    ends.destination.name = name;
    ends.destination.typed = (node.empty() ? "" : node + ":") + name;
    ONECOPY_ASSIGN_OR_RETURN(Move move, CopyNext(client, ends, deadline, options));
    summary.Add(std::move(move), 1);
  }
  summary.End(Json::object());
  return OkStatus();
}

Status CopyEach(Session& session, Client& client, const ManyCopies& copies, const std::string& node,
                const std::vector<FileInSet>& files, const Deadline& deadline,
                const FileCopyOptions& options) {
  if (!copies.message.empty()) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--message goes to the watcher of one buffer, and each of these files gets a buffer of "
            "its own",
            "leave out --message, or copy all files into one buffer: DST as NODE:NAME"};
  }
  // All names before the first byte.
  ByName by_name;
  for (const FileInSet& file : files) {
    ONECOPY_ASSIGN_OR_RETURN(const std::string name, BufferNameOf(file));
    const auto [other, fresh] = by_name.emplace(name, &file);
    if (!fresh) {
      return {Code::kInvalidArgument, reasons::kNameTaken,
              Quote(other->second->path) + " and " + Quote(file.path) +
                  " would both go to buffer " + Quote(name),
              "copy all into one buffer: DST as NODE:NAME"};
    }
  }
  std::vector<BufferInfo> made;
  Status status;
  if (copies.create) {
    status =
        deadline.Within([&] { return MakeBuffers(client, node, by_name, *copies.create, made); });
  }
  if (status.ok()) status = CopyAll(session, client, node, by_name, deadline, options);
  if (status.ok() || copies.keep_failed) return status;
  return deadline.Undo([&] {
    for (const BufferInfo& each : made) status = Unmake(client, each, status);
    return status;
  });
}

// Bytes of this process into the buffer's beginning.
Status Put(Client& client, const Endpoint& buffer, const std::string& bytes,
           const Deadline& deadline, const FileCopyOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(const FileCopyOptions now, deadline.Next(options));
  const os::UniqueFd fd(::memfd_create("onecopy-index", MFD_CLOEXEC));
  if (!fd) return os::ErrnoStatus(errno, "making room for the index");
  if (::pwrite(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return os::ErrnoStatus(errno, "writing the index");
  }
  Endpoint beginning = buffer;
  beginning.offset_bytes = 0;
  beginning.bytes = bytes.size();
  return CopyFileToBuffer(client, {"the index", fd.get(), 0, bytes.size()}, beginning, now)
      .status();
}

// Those of a pack that go together by one request, from `first` on: as many small files as there
// are in a row, or one. A policy about the way is about each file's own.
size_t TogetherFrom(const Pack& pack, size_t first, const FileCopyOptions& options) {
  size_t end = first;
  if (options.policy == Policy{}) {
    while (end < pack.files.size() && pack.files[end].bytes < kLargeFile) ++end;
  }
  return std::max<size_t>(1, end - first);
}

Result<Move> CopyTogether(Client& client, const ParsedEndpoint& destination,
                          std::span<const FileInSet> files, const Deadline& deadline,
                          const FileCopyOptions& options) {
  if (files.size() == 1) {
    MoveEnds ends;
    ends.source = FileEnd(files[0]);
    ends.destination = destination;
    ends.destination.offset_bytes = files[0].offset_bytes;
    ends.destination.bytes = files[0].bytes;
    ends.destination.typed +=
        "@" + std::to_string(files[0].offset_bytes) + "+" + std::to_string(files[0].bytes);
    return CopyNext(client, ends, deadline, options);
  }
  ONECOPY_ASSIGN_OR_RETURN(const FileCopyOptions now, deadline.Next(options));
  std::vector<PlacedFile> placed;
  for (const FileInSet& file : files) {
    placed.push_back({ToLocalFile(FileEnd(file), true), file.offset_bytes});
  }
  return CopyFiles(client, placed, destination, now);
}

Status CopyPack(Client& client, const ParsedEndpoint& destination, const Pack& pack,
                const Deadline& deadline, const FileCopyOptions& options, CopySummary& summary) {
  // Until the new index is there, there is none: what an older one says is overwritten.
  const std::string none(sizeof(uint64_t), '\0');
  ONECOPY_RETURN_IF_ERROR(Put(client, destination.ToEndpoint(), none, deadline, options));
  for (size_t at = 0; at < pack.files.size();) {
    const size_t count = TogetherFrom(pack, at, options);
    const std::span<const FileInSet> files(&pack.files[at], count);
    at += count;
    if (count == 1 && files[0].bytes == 0) continue;
    ONECOPY_ASSIGN_OR_RETURN(Move move,
                             CopyTogether(client, destination, files, deadline, options));
    summary.Add(std::move(move), count);
  }
  return Put(client, destination.ToEndpoint(), pack.index, deadline, options);
}

Status CopyAllIntoOne(Session& session, Client& client, const ManyCopies& copies, FileSet set,
                      const Deadline& deadline, const FileCopyOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(const ParsedEndpoint destination, ParseEndpoint(copies.destination));
  if (destination.kind != Kind::kBuffer || destination.offset_bytes.has_value()) {
    return {Code::kInvalidArgument, reasons::kBadEndpoint,
            Quote(copies.destination) + " is not a whole buffer, and several files need one",
            "write NODE: for one buffer per file, or NODE:NAME for one buffer with an index"};
  }
  ONECOPY_ASSIGN_OR_RETURN(const Pack pack, MakePack(std::move(set)));
  std::optional<BufferInfo> made;
  if (copies.create) {
    ONECOPY_ASSIGN_OR_RETURN(made, deadline.Within([&] {
      return MakeBuffer(client, destination, pack.bytes, *copies.create);
    }));
  } else {
    ONECOPY_ASSIGN_OR_RETURN(const BufferInfo buffer, deadline.Within([&] {
      return client.GetBuffer(destination.node, destination.name);
    }));
    if (buffer.bytes < pack.bytes) {
      return {Code::kInvalidArgument, reasons::kSizeMismatch,
              "the files and their index have " + std::to_string(pack.bytes) + " bytes, and " +
                  buffer.node + ":" + buffer.name + " has room for " + std::to_string(buffer.bytes),
              "make a larger buffer, or let --create make it"};
    }
  }
  CopySummary summary(session, copies.destination);
  if (const Status status = CopyPack(client, destination, pack, deadline, options, summary);
      !status.ok()) {
    if (!made || copies.keep_failed) return status;
    return deadline.Undo([&] { return Unmake(client, *made, status); });
  }
  if (!copies.message.empty()) {
    const Status told = deadline.Within([&] {
      return client.SendMessage(
          {.destination = {destination.node, destination.name}, .message = copies.message});
    });
    if (!told.ok())
      return told.WithContext("the data was transferred, but the message was not delivered");
  }
  Json listed = Json::array();
  for (const FileInSet& file : pack.files) {
    listed.push_back({{"name", file.name}, {"offset", file.offset_bytes}, {"bytes", file.bytes}});
  }
  summary.End({{"index_bytes", pack.index.size()}, {"files", std::move(listed)}});
  if (!session.json() && !session.quiet()) {
    session.out() << pack.files.size() << " files and their index are in "
                  << Printable(copies.destination) << '\n';
  }
  return OkStatus();
}

}  // namespace

bool IsOfMany(const std::vector<std::string>& sources, const std::string& destination) {
  if (sources.size() > 1 || NodeAlone(destination)) return true;
  const Result<ParsedEndpoint> source = ParseEndpoint(sources.front());
  std::error_code error;
  return source.ok() && source->kind == Kind::kFile &&
         std::filesystem::is_directory(source->path, error);
}

Result<FileSet> FilesOf(const ManyCopies& copies) {
  std::vector<std::string> paths;
  for (const std::string& typed : copies.sources) {
    ONECOPY_ASSIGN_OR_RETURN(const ParsedEndpoint source, ParseEndpoint(typed));
    const bool range = source.bytes.has_value() || source.offset_bytes.value_or(0) > 0;
    if (source.kind != Kind::kFile || range) {
      return Status(
          Code::kInvalidArgument, reasons::kBadEndpoint,
          "several sources must all be files or folders on this node, and " + Quote(typed) +
              (range ? " was read as a range of " + Quote(source.path) : " is not"),
          range ? "copy ranges separately; for a file of that name write " + ShellWord(typed + "@0")
                : "write ./NAME or /path/NAME; copy buffers separately");
    }
    paths.push_back(source.path);
  }
  return FindFiles(paths);
}

Status CopyMany(Session& session, Client& client, const ManyCopies& copies, FileSet set,
                const Deadline& deadline, const FileCopyOptions& options) {
  for (const LeftOut& each : set.left_out) {
    session.err() << "onecopy: left out " << Quote(each.path) << ": " << each.why << '\n';
  }
  if (const auto node = NodeAlone(copies.destination)) {
    for (const std::string& folder : set.folders) {
      session.err() << "onecopy: left out " << Quote(folder) << ": a folder without files\n";
    }
    return CopyEach(session, client, copies, *node, set.files, deadline, options);
  }
  return CopyAllIntoOne(session, client, copies, std::move(set), deadline, options);
}

}  // namespace onecopy::cli
