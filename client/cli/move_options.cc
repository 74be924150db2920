#include "client/cli/move_options.h"

#include <unistd.h>

#include <charconv>
#include <utility>

#include "client/cli/output/escape.h"
#include "client/cli/ranges_file.h"
#include "onecopy/reasons.h"
#include "transport/core/base/nearest.h"

namespace onecopy::cli {
namespace {

using Kind = ParsedEndpoint::Kind;

bool IsLocal(const ParsedEndpoint& end) {
  return end.kind == Kind::kFile || end.kind == Kind::kStream;
}

Status RefuseTwoFiles(const MoveEnds& ends) {
  if (!IsLocal(ends.source) || !IsLocal(ends.destination)) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadEndpoint,
          "both ends are files on this node, and neither is a buffer",
          "use cp(1) or cat(1), or name a buffer as NODE:NAME or NAME"};
}

// A file of the client's own node the client opens itself, with its own rights.
void Locate(ParsedEndpoint& end, const std::string& own_node) {
  if (end.kind == Kind::kRemoteFile && end.node == own_node) end.kind = Kind::kFile;
}

Status CheckRemoteFiles(const MoveEnds& ends) {
  const auto check = [](const ParsedEndpoint& file, const ParsedEndpoint& other) -> Status {
    if (file.kind != Kind::kRemoteFile || other.kind == Kind::kBuffer) return OkStatus();
    return {Code::kInvalidArgument, reasons::kBadEndpoint,
            "both ends are files, " + Quote(file.typed) + " of another node",
            "copy the first file into a buffer, then the buffer into the other file"};
  };
  ONECOPY_RETURN_IF_ERROR(check(ends.source, ends.destination));
  return check(ends.destination, ends.source);
}

// What is wrong with a number of copies; empty for one that the daemon can judge.
std::string CheckCopies(const std::string& typed) {
  uint32_t copies = 0;
  const char* end = typed.data() + typed.size();
  const auto [parsed, error] = std::from_chars(typed.data(), end, copies);
  if (error == std::errc() && parsed == end) return {};
  return Quote(typed) + " is not a number of copies; write a whole number such as 1 or 3";
}

bool FileExists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// "@1000" of what was typed as "./ckpt@1000"; empty: a file here without a range.
std::string RangeTyped(const ParsedEndpoint& end) {
  if (end.kind != Kind::kFile || !end.offset_bytes) return {};
  return end.typed.substr(end.typed.rfind('@'));
}

// Nobody can know which one is meant.
Status CheckRangeMeant(const ParsedEndpoint& end) {
  const std::string range = RangeTyped(end);
  if (range.empty() || !FileExists(end.path + range)) return OkStatus();
  std::string other = end.path + "@" + std::to_string(*end.offset_bytes) + "B";
  if (end.bytes) other += "+" + std::to_string(*end.bytes) + "B";
  return {Code::kInvalidArgument, reasons::kBadEndpoint,
          Quote(end.typed) + " is a range of " + Quote(end.path) +
              ", and a file with that whole name exists too",
          "write " + ShellWord(end.typed + "@0") + " for that file, or " + ShellWord(other) +
              " for the range"};
}

Status SuggestWholeName(const Status& status, const MoveEnds& ends) {
  for (const ParsedEndpoint* end : {&ends.source, &ends.destination}) {
    if (RangeTyped(*end).empty()) continue;
    if (status.message().find(end->path) == std::string::npos) continue;
    return {status.code(), status.reason(),
            status.message() + "; " + Quote(end->typed) + " was read as a range of that file",
            (status.remedy().empty() ? "" : status.remedy() + "; ") +
                "for a file of that whole name write " + ShellWord(end->typed + "@0")};
  }
  return status;
}

// Whether `status` says that this buffer does not exist. `node` is where an end without one is.
bool IsMissing(const Status& status, const ParsedEndpoint& end, const std::string& node) {
  if (end.kind != Kind::kBuffer) return false;
  const std::string& at = end.node.empty() ? node : end.node;
  const std::string name = " has no buffer \"" + end.name + "\"";
  return status.message().find(at.empty() ? name : "node " + at + name) != std::string::npos;
}

// "did you mean west:weights? " where the caller may use a buffer with a similar name; else empty.
std::string SimilarBuffer(Client& client, const ParsedEndpoint& end) {
  const Result<std::vector<BufferInfo>> buffers = client.ListBuffers(end.node);
  if (!buffers.ok()) return {};
  std::vector<std::string> names;
  for (const BufferInfo& buffer : *buffers) names.push_back(buffer.name);
  const std::string nearest = Nearest(end.name, names);
  if (nearest.empty()) return {};
  return "did you mean " + (end.node.empty() ? nearest : end.node + ":" + nearest) + "? ";
}

}  // namespace

void AddMoveOptions(CLI::App& command, MoveOptions& options) {
  command.add_option("SRC", options.source, "Where the bytes are: a buffer, a file here, or -")
      ->required();
  command
      .add_option("DST", options.destination, "Where they should be: a buffer, a file here, or -")
      ->required();
  AddPolicyOptions(command, options);
}

void AddPolicyOptions(CLI::App& command, MoveOptions& options) {
  command
      .add_option("--path", options.policy.path_glob,
                  "Require a path with a matching name, as in --path 'rdma-*'")
      ->type_name("GLOB");
  command
      .add_option("--at-most", options.policy.at_most_copies,
                  "Require at most N copies, as in --at-most 1")
      ->type_name("N")
      ->check(CLI::Validator([](std::string& typed) { return CheckCopies(typed); }, ""));
  command.add_option("--link", options.policy.link, "Require this link, as in --link tcp")
      ->type_name("NAME");
  command
      .add_option(
          "--ranges", options.ranges_file,
          "Move only these ranges, in one transfer: a file of JSON lines, or - for standard input")
      ->type_name("FILE");
  command.add_flag("--allow-emulated", options.policy.allow_emulated,
                   "Let --at-most accept a path over a software RDMA device");
}

Result<MoveEnds> ParseEnds(const MoveOptions& options) {
  MoveEnds ends;
  ONECOPY_ASSIGN_OR_RETURN(ends.source, ParseEndpoint(options.source));
  ONECOPY_ASSIGN_OR_RETURN(ends.destination, ParseEndpoint(options.destination));
  ONECOPY_RETURN_IF_ERROR(RefuseTwoFiles(ends));
  return ends;
}

Result<MoveEnds> LocateFiles(MoveEnds ends, const std::string& own_node) {
  Locate(ends.source, own_node);
  Locate(ends.destination, own_node);
  ONECOPY_RETURN_IF_ERROR(RefuseTwoFiles(ends));
  ONECOPY_RETURN_IF_ERROR(CheckRemoteFiles(ends));
  ONECOPY_RETURN_IF_ERROR(CheckRangeMeant(ends.source));
  ONECOPY_RETURN_IF_ERROR(CheckRangeMeant(ends.destination));
  return ends;
}

LocalFile ToLocalFile(const ParsedEndpoint& end, bool is_source) {
  if (end.kind == Kind::kStream) {
    return {is_source ? "standard input" : "standard output",
            is_source ? STDIN_FILENO : STDOUT_FILENO};
  }
  return {end.path, -1, end.offset_bytes, end.bytes};
}

Status Suggest(const Status& status, const MoveEnds& ends, Client& client) {
  if (status.reason() == reasons::kFileNotFound || status.reason() == reasons::kRangeOutOfBuffer) {
    return SuggestWholeName(status, ends);
  }
  if (status.reason() != reasons::kBufferNotFound) return status;
  for (const ParsedEndpoint* end : {&ends.source, &ends.destination}) {
    if (!IsMissing(status, *end, client.node())) continue;
    // A source must be there; a destination may be about to be made.
    const bool file =
        end->bare && (FileExists(end->name) || (end == &ends.destination && !IsLocal(ends.source)));
    std::string hint = SimilarBuffer(client, *end);
    if (file) {
      const std::string path = ShellWord("./" + end->typed);
      hint += FileExists(end->name) ? "a file of that name exists here: write " + path
                                    : "to write a file here: " + path;
      hint += status.remedy().empty() ? "" : "; or ";
    }
    return Status(status.code(), status.reason(), status.message(), hint + status.remedy());
  }
  return status;
}

Status SuggestCreate(const Status& status, const MoveEnds& ends) {
  const ParsedEndpoint& end = ends.destination;
  if (status.reason() != reasons::kBufferNotFound || end.kind != Kind::kBuffer ||
      end.offset_bytes || !IsMissing(status, end, end.node)) {
    return status;
  }
  return Status(status.code(), status.reason(), status.message(),
                "let cp make the buffer: --create; or " + status.remedy());
}

Result<RangeList> RangesOf(const MoveOptions& options, const MoveEnds& ends) {
  if (options.ranges_file.empty()) return RangeList();
  if (ends.source.kind == Kind::kStream || ends.destination.kind == Kind::kStream) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "--ranges needs a buffer or a regular file at both ends, and one end is a stream",
                  "name a buffer or a file on this node");
  }
  ONECOPY_ASSIGN_OR_RETURN(RangeList list, ReadRangesFile(options.ranges_file));
  const bool several = !list.more_sources.empty() || !list.more_destinations.empty();
  if (several && (IsLocal(ends.source) || IsLocal(ends.destination))) {
    return Status(
        Code::kInvalidArgument, reasons::kBadArgument,
        Quote(options.ranges_file) +
            " names several buffers, and a file can be copied from or to only one at a time",
        "run one copy for each buffer");
  }
  return list;
}

Result<Plan> PlanMove(Client& client, const MoveEnds& ends, const FileCopyOptions& options,
                      const RangeList& ranges) {
  if (!IsLocal(ends.source) && !IsLocal(ends.destination)) {
    TransferRequest request;
    request.source = ends.source.ToEndpoint();
    request.destination = ends.destination.ToEndpoint();
    ranges.AddTo(&request);
    request.policy = options.policy;
    return client.PlanTransfer(request);
  }
  if (IsLocal(ends.source)) {
    return PlanFileToBuffer(client, ToLocalFile(ends.source, true), ends.destination.ToEndpoint(),
                            options);
  }
  return PlanBufferToFile(client, ends.source.ToEndpoint(), ToLocalFile(ends.destination, false),
                          options);
}

}  // namespace onecopy::cli
