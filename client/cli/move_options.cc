#include "client/cli/move_options.h"

#include <unistd.h>

#include <charconv>
#include <utility>

#include "client/cli/output/escape.h"
#include "client/cli/ranges_file.h"
#include "onecopy/reasons.h"

namespace onecopy::cli {
namespace {

using Kind = ParsedEndpoint::Kind;

bool IsLocal(const ParsedEndpoint& end) {
  return end.kind == Kind::kFile || end.kind == Kind::kStream;
}

Status RefuseTwoFiles(const MoveEnds& ends) {
  if (!IsLocal(ends.source) || !IsLocal(ends.destination)) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadEndpoint,
          "both ends are files here, and no buffer is among them",
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
            "copy the one into a buffer, and that into the other"};
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
  return Quote(typed) + " is no number of copies; write a whole number such as 1 or 3";
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
              ", and there is a file of that "
              "whole name, too",
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
                  "Only a path whose name fits, as in --path 'rdma-*'; else fail")
      ->type_name("GLOB");
  command
      .add_option("--at-most", options.policy.at_most_copies,
                  "Only a path of at most N copies, as in --at-most 1; else fail")
      ->type_name("N")
      ->check(CLI::Validator([](std::string& typed) { return CheckCopies(typed); }, ""));
  command.add_option("--link", options.policy.link, "Only this link, as in --link tcp")
      ->type_name("NAME");
  command
      .add_option(
          "--ranges", options.ranges_file,
          "Only these ranges, in one transfer: a file of JSON lines, or - for standard input")
      ->type_name("FILE");
  command.add_flag("--allow-emulated", options.policy.allow_emulated,
                   "Let a path over a software RDMA device count for --at-most");
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

Status Suggest(const Status& status, const MoveEnds& ends, const std::string& own_node) {
  if (status.reason() == reasons::kFileNotFound || status.reason() == reasons::kRangeOutOfBuffer) {
    return SuggestWholeName(status, ends);
  }
  if (status.reason() != reasons::kBufferNotFound) return status;
  for (const ParsedEndpoint* end : {&ends.source, &ends.destination}) {
    // A source must be there; a destination may be about to be made.
    const bool meant =
        end->bare && (FileExists(end->name) || (end == &ends.destination && !IsLocal(ends.source)));
    const std::string missing = "node " + own_node + " has no buffer \"" + end->name + "\"";
    if (!meant || status.message().find(missing) == std::string::npos) continue;
    const std::string file = ShellWord("./" + end->typed);
    const std::string hint = FileExists(end->name)
                                 ? "there is a file of that name here: write " + file
                                 : "to write a file here: " + file;
    return Status(status.code(), status.reason(), status.message(),
                  hint + (status.remedy().empty() ? "" : "; or " + status.remedy()));
  }
  return status;
}

Result<RangeList> RangesOf(const MoveOptions& options, const MoveEnds& ends) {
  if (options.ranges_file.empty()) return RangeList();
  if (ends.source.kind == Kind::kStream || ends.destination.kind == Kind::kStream) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "--ranges needs two ends that have them, and one is a stream",
                  "name a buffer or a file here");
  }
  ONECOPY_ASSIGN_OR_RETURN(RangeList list, ReadRangesFile(options.ranges_file));
  const bool several = !list.more_sources.empty() || !list.more_destinations.empty();
  if (several && (IsLocal(ends.source) || IsLocal(ends.destination))) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  Quote(options.ranges_file) +
                      " names several buffers, and a file is copied from or to one at a time",
                  "copy for each buffer on its own");
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
