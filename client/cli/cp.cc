#include <unistd.h>

#include <memory>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/copy_file.h"
#include "client/cli/cp_many.h"
#include "client/cli/cp_to_several.h"
#include "client/cli/deadline.h"
#include "client/cli/interrupt.h"
#include "client/cli/made_buffer.h"
#include "client/cli/move_options.h"
#include "client/cli/output/escape.h"
#include "client/cli/output/progress.h"
#include "client/cli/output/report.h"
#include "client/cli/peer_notice.h"
#include "client/cli/tensors.h"
#include "client/cli/time_option.h"
#include "client/cli/unpack.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::cli {
namespace {

using Kind = ParsedEndpoint::Kind;

struct CpOptions {
  std::vector<std::string> ends;  // as typed: the last one is where they go
  MoveOptions move;
  std::vector<std::string> also;  // further buffers for the same source
  std::string create;             // the memory of a buffer to be made; empty: none is
  bool keep_failed = false;
  bool checksum = false;
  bool sync = false;
  bool write_device = false;
  bool resume = false;
  bool tensors = false;
  std::string rate_limit = "0";
  std::string priority = "normal";
  std::string trace;
  std::string deadline;
  std::string message;
  bool dry_run = false;
  bool detach = false;
};

// What daemons move without this process: buffers, and files of other nodes.
bool IsOfDaemon(Kind kind) { return kind == Kind::kBuffer || kind == Kind::kRemoteFile; }

Result<Move> CopyBuffers(Client& client, const TransferRequest& request, ProgressBar& bar,
                         PeerNotice& notice, const std::stop_token& stop) {
  const auto on_update = [&](const TransferInfo& transfer) {
    bar.Update(transfer.bytes_done, transfer.bytes);
    notice.Progress(transfer.bytes_done);
  };
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo transfer,
                           client.RunTransfer(request, on_update, stop));
  ONECOPY_RETURN_IF_ERROR(OutcomeOf(transfer));
  return MoveOf(transfer);
}

// A file that ends before the buffer leaves the rest of the buffer as it was.
void TellRest(Session& session, Client& client, const MoveEnds& ends, uint64_t bytes) {
  const ParsedEndpoint& to = ends.destination;
  const bool from_file = ends.source.kind == Kind::kFile || ends.source.kind == Kind::kStream ||
                         ends.source.kind == Kind::kRemoteFile;
  if (!from_file || to.kind != Kind::kBuffer || to.bytes) return;
  const Result<BufferInfo> buffer = client.GetBuffer(to.node, to.name);
  const uint64_t end = to.offset_bytes.value_or(0) + bytes;
  if (!buffer.ok() || buffer->bytes <= end) return;
  session.err() << "onecopy: note: " << Printable(ends.source.typed) << " ends before "
                << Printable(to.typed) << ": the last " << FormatBytes(buffer->bytes - end)
                << " of the buffer are unchanged\n";
}

Status Detach(Session& session, Client& client, const TransferRequest& request) {
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo transfer, client.StartTransfer(request));
  if (session.json()) {
    Print(session.out(), ToJson(transfer));
    return OkStatus();
  }
  session.out() << transfer.id.str() << '\n';  // alone, for id=$(onecopy cp … --detach)
  if (!session.quiet()) {
    session.err() << "onecopy: started; to wait for it: onecopy transfer watch "
                  << transfer.id.str() << '\n';
  }
  return OkStatus();
}

Status DryRun(Session& session, Client& client, const MoveEnds& ends,
              const FileCopyOptions& options, const RangeList& ranges) {
  ONECOPY_ASSIGN_OR_RETURN(const Plan plan, PlanMove(client, ends, options, ranges));
  if (session.json()) {
    Print(session.out(), PlanToJson(ends.source.typed, ends.destination.typed, plan));
  } else if (!session.quiet()) {
    PrintPlan(session.out(), ends.source.typed, ends.destination.typed, plan);
  }
  return OkStatus();
}

Status CheckOptions(const CpOptions& options, const MoveEnds& ends) {
  if (ends.destination.kind == Kind::kStream && !options.dry_run && ::isatty(STDOUT_FILENO) == 1) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "the bytes would be written to this terminal",
            "redirect standard output: `onecopy cp … - > FILE`"};
  }
  const bool file = !IsOfDaemon(ends.source.kind) || !IsOfDaemon(ends.destination.kind);
  if (options.detach && file) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--detach needs two buffers: this process itself reads and writes files",
            "leave out --detach, or run the command in the background with `&`"};
  }
  if (!options.message.empty() && ends.destination.kind != Kind::kBuffer) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--message goes to the watcher of a buffer, and the destination is a file",
            "leave out --message, or tell the source's watcher: `onecopy buffer tell`"};
  }
  if (options.sync && ends.destination.kind == Kind::kBuffer) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--sync applies to a destination file, and the destination is a buffer",
            "leave out the option"};
  }
  if (options.write_device && IsOfDaemon(ends.destination.kind)) {
    return {
        Code::kInvalidArgument, reasons::kBadArgument,
        "--write-device applies to a block device on this node, and the destination is " +
            std::string(ends.destination.kind == Kind::kBuffer ? "a buffer" : "on another node"),
        "leave out the option"};
  }
  if (options.resume && !file) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--resume continues a copy between a buffer and a file on this node, and here daemons "
            "move the bytes by themselves",
            "leave out --resume: daemons continue a transfer after a lost connection anyway"};
  }
  if (options.resume && options.dry_run) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--dry-run reads no bytes, so it cannot tell what --resume would move",
            "leave out one of the two"};
  }
  if (options.detach && options.dry_run) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--dry-run starts no transfer, so --detach has no effect", "leave out one of the two"};
  }
  return OkStatus();
}

Result<Pacing> PacingOf(const CpOptions& options) {
  Pacing pacing;
  pacing.priority = ParsePriority(options.priority).value_or(Priority::kNormal);
  Result<uint64_t> rate = ParseBytes(options.rate_limit);
  if (!rate.ok()) return rate.status().WithContext("--rate-limit");
  if (*rate != 0 && *rate < kMinRateLimitBytesPerSecond) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "--rate-limit is bytes per second, and " + options.rate_limit + " is less than " +
                      FormatBytes(kMinRateLimitBytesPerSecond),
                  "give more, as in --rate-limit 500MiB, or 0 for no limit");
  }
  pacing.rate_limit_bytes_per_second = *rate;
  return pacing;
}

Status CheckCreate(const CpOptions& options) {
  const auto refuse = [](const std::string& what, const std::string& why) -> Status {
    return {Code::kInvalidArgument, reasons::kBadArgument, "--create and " + what + ": " + why,
            "leave out one of the two, or make the buffer first: onecopy buffer create"};
  };
  if (options.create.empty()) {
    if (!options.keep_failed) return OkStatus();
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--keep-failed has no effect without --create", "leave out the option"};
  }
  if (options.dry_run) return refuse("--dry-run", "a plan needs an existing buffer");
  if (options.resume) return refuse("--resume", "a new buffer has nothing to continue");
  if (options.detach)
    return refuse("--detach", "the new buffer would not be cleaned up on failure");
  if (!options.move.ranges_file.empty()) {
    return refuse("--ranges", "the size of the new buffer is unknown");
  }
  return OkStatus();
}

// What is for one copy, where there are several.
Status CheckOneByOne(const CpOptions& options) {
  if (!options.dry_run && options.move.ranges_file.empty() && !options.tensors &&
      !options.write_device && !options.resume && options.rate_limit == "0") {
    return OkStatus();
  }
  return {Code::kInvalidArgument, reasons::kBadArgument,
          "--dry-run, --ranges, --rate-limit, --resume, --tensors and --write-device work with one "
          "file, and there are several",
          "leave out these options, or copy one file"};
}

// Several files, which this process reads one after the other.
Status RunMany(Session& session, const CpOptions& options, const Deadline& deadline,
               FileCopyOptions file_options) {
  ONECOPY_RETURN_IF_ERROR(CheckOneByOne(options));
  if (options.detach || options.sync) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--detach and --sync work with one source, and there are several",
            "leave out these options, or copy one file"};
  }
  ManyCopies copies;
  copies.sources.assign(options.ends.begin(), options.ends.end() - 1);
  copies.destination = options.ends.back();
  if (!options.create.empty()) copies.create = options.create;
  copies.keep_failed = options.keep_failed;
  copies.message = options.message;
  ONECOPY_ASSIGN_OR_RETURN(FileSet files, FilesOf(copies));
  const Interrupt interrupt;  // before the client's threads
  ONECOPY_ASSIGN_OR_RETURN(Client client, deadline.Within([&] { return session.Connect(); }));
  file_options.stop = interrupt.token();
  return CopyMany(session, client, copies, std::move(files), deadline, file_options);
}

// One source into several buffers, and a receipt for each.
Status RunToSeveral(Session& session, const CpOptions& options, const Deadline& deadline,
                    std::vector<std::string> destinations, FileCopyOptions file_options) {
  if (options.dry_run || options.detach || options.sync || options.tensors ||
      options.write_device || options.resume || options.rate_limit != "0" ||
      options.priority != "normal" || !options.move.ranges_file.empty()) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "several destinations cannot be combined with --detach, --dry-run, --priority, "
            "--ranges, --rate-limit, --resume, --sync, --tensors or --write-device",
            "leave out these options, or copy to each buffer separately"};
  }
  destinations.insert(destinations.end(), options.also.begin(), options.also.end());
  CopiesToSeveral copies;
  copies.move = options.move;
  copies.move.destination = destinations.front();
  copies.destinations = std::move(destinations);
  copies.create = options.create;
  copies.keep_failed = options.keep_failed;
  copies.message = options.message;
  return CopyToSeveral(session, copies, deadline, std::move(file_options));
}

Status RunCp(Session& session, const CpOptions& typed) {
  if (typed.ends.size() < 2) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "cp takes one source and one destination",
            "several sources must all be files or folders: see `onecopy cp --help`"};
  }
  CpOptions options = typed;
  options.move.source = options.ends.front();
  options.move.destination = options.ends.back();
  ONECOPY_RETURN_IF_ERROR(CheckCreate(options));
  std::optional<std::chrono::milliseconds> limit;
  if (!options.deadline.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(limit, ParseTimeOption("--deadline", options.deadline));
  }
  const Deadline deadline(limit);
  FileCopyOptions file_options;
  file_options.policy = options.move.policy;
  file_options.checksum = options.checksum;
  file_options.sync = options.sync;
  file_options.write_device = options.write_device;
  file_options.resume = options.resume;
  ONECOPY_ASSIGN_OR_RETURN(file_options.pacing, PacingOf(options));
  ONECOPY_ASSIGN_OR_RETURN(file_options.trace, TraceContext::Parse(options.trace));
  const bool of_many =
      IsOfMany({options.ends.begin(), options.ends.end() - 1}, options.ends.back());
  ONECOPY_ASSIGN_OR_RETURN(auto in_braces, NodesInBraces(options.ends.back()));
  if (in_braces || !options.also.empty()) {
    if (of_many) {
      return {Code::kInvalidArgument, reasons::kBadArgument,
              "several destinations work with one source, and there are several",
              "copy them one by one"};
    }
    if (!in_braces) in_braces = {options.ends.back()};
    return RunToSeveral(session, options, deadline, std::move(*in_braces), std::move(file_options));
  }
  if (of_many) {
    return RunMany(session, options, deadline, std::move(file_options));
  }
  ONECOPY_ASSIGN_OR_RETURN(MoveEnds ends, ParseEnds(options.move));
  const Interrupt interrupt;  // before the client's threads
  ONECOPY_ASSIGN_OR_RETURN(Client client, deadline.Within([&] { return session.Connect(); }));
  ONECOPY_ASSIGN_OR_RETURN(ends, LocateFiles(std::move(ends), client.node()));
  ONECOPY_RETURN_IF_ERROR(CheckOptions(options, ends));
  const auto suggest = [&](const Status& status) {
    return deadline.Within([&] { return Suggest(status, ends, client); });
  };
  if (IsUnpack(ends)) {
    ONECOPY_RETURN_IF_ERROR(CheckOneByOne(options));
    file_options.stop = interrupt.token();
    return suggest(Unpack(session, client, ends, deadline, file_options));
  }
  ONECOPY_ASSIGN_OR_RETURN(const RangeList ranges, RangesOf(options.move, ends));
  file_options.ranges = ranges.ranges;
  TensorFile tensors;
  if (options.tensors) {
    ONECOPY_ASSIGN_OR_RETURN(tensors, OpenTensors(&ends));
  }
  if (ends.destination.kind == Kind::kStream && !options.dry_run) session.LeaveStdoutToPayload();
  if (options.dry_run) {
    return suggest(
        deadline.Within([&] { return DryRun(session, client, ends, file_options, ranges); }));
  }
  TransferRequest request;
  ranges.AddTo(&request);
  request.source = ends.source.ToEndpoint();
  request.destination = ends.destination.ToEndpoint();
  request.policy = options.move.policy;
  request.checksum = options.checksum;
  request.sync = options.sync;
  request.pacing = file_options.pacing;
  request.trace = file_options.trace;
  request.message = options.message;
  if (options.detach) {
    ONECOPY_ASSIGN_OR_RETURN(request.deadline, deadline.Left());
    return suggest(Detach(session, client, request));
  }

  PeerNotice notice(client, {ends.source, ends.destination}, session.err(), !session.quiet());
  ProgressBar bar(session.err(), StderrIsTerminal() && !session.quiet() && !session.json());
  file_options.stop = interrupt.token();
  file_options.on_progress = [&](uint64_t done, std::optional<uint64_t> total) {
    bar.Update(done, total);
    notice.Progress(done);
  };
  std::optional<BufferInfo> made;
  if (!options.create.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t bytes,
                             deadline.Within([&] { return BytesOf(client, ends.source); }));
    ONECOPY_ASSIGN_OR_RETURN(made, deadline.Within([&] {
      return MakeBuffer(client, ends.destination, bytes, options.create);
    }));
    if (ends.source.kind == Kind::kFile) {  // which may have grown meanwhile
      ends.source.offset_bytes = ends.source.offset_bytes.value_or(0);
      ends.source.bytes = bytes;
    }
  }
  const bool buffers = IsOfDaemon(ends.source.kind) && IsOfDaemon(ends.destination.kind);
  const auto copy = [&]() -> Result<Move> {
    ONECOPY_ASSIGN_OR_RETURN(request.deadline, deadline.Left());
    if (buffers) return CopyBuffers(client, request, bar, notice, interrupt.token());
    file_options.deadline = request.deadline;
    return CopyFile(client, ends, file_options, tensors.fd.get());
  };
  const Result<Move> move = copy();
  bar.Clear();
  if (!move.ok()) {
    const bool unmake = made && !options.keep_failed;
    const Status why = unmake ? deadline.Undo([&] { return Unmake(client, *made, move.status()); })
                              : move.status();
    return SuggestCreate(suggest(why), ends);
  }
  // A file goes in windows: what is said of it is said of the whole.
  if (!buffers && !options.message.empty()) {
    const Status told = deadline.Within([&] {
      return client.SendMessage({.destination = {ends.destination.node, ends.destination.name},
                                 .message = options.message});
    });
    if (!told.ok())
      return told.WithContext("the data was transferred, but the message was not delivered");
  }
  if (session.json()) {
    Json document = ToJson(*move);
    if (options.tensors) {
      document["tensors"] = TensorsToJson(tensors.header, ends.destination, client.node());
    }
    Print(session.out(), document);
  } else if (!session.quiet()) {
    PrintReceipt(session.out(), *move);
    deadline.Within(
        [&] { TellRest(session, client, ends, move->bytes + move->proven_bytes.value_or(0)); });
    if (options.tensors) {
      PrintTensors(session.out(), tensors.header, ends.destination, client.node());
    }
  }
  return OkStatus();
}

}  // namespace

void AddCp(CLI::App& program, Command& chosen) {
  CLI::App* command = program.add_subcommand("cp", "Move bytes and print the receipt");
  auto options = std::make_shared<CpOptions>();
  command
      ->add_option(
          "SRC... DST", options->ends,
          "One source: a buffer, a file, or - (standard input); or several files and folders of "
          "this node. Then the destination: a buffer, a file, or - (standard output)")
      ->required()
      ->expected(1, 1 << 20);
  AddPolicyOptions(*command, options->move);
  command
      ->add_option(
          "--also", options->also,
          "Copy the source to this buffer too, from another destination, so that a file is "
          "read once and a buffer is sent once; may be repeated")
      ->type_name("DST");
  command->add_flag("--create{host}", options->create,
                    "Create the destination buffer, in host memory or as in --create=cuda:0; it is "
                    "removed again if the copy fails");
  command->add_flag("--keep-failed", options->keep_failed,
                    "With --create: keep the new buffer even if the copy fails");
  command->add_flag("--checksum", options->checksum,
                    "Compare checksums of both ends after the transfer");
  command->add_flag("--sync", options->sync,
                    "Fsync the destination file and its folder before returning");
  command->add_flag("--write-device", options->write_device,
                    "Allow a block device as the destination; its contents are lost");
  command
      ->add_option("--rate-limit", options->rate_limit,
                   "Move at most so many bytes per second, as in --rate-limit 500MiB")
      ->type_name("BYTES");
  command
      ->add_option("--priority", options->priority,
                   "low: only while nothing else of yours waits; high: before all else of yours")
      ->type_name("PRIORITY")
      ->check(CLI::IsMember({"low", "normal", "high"}));
  command
      ->add_option("--trace", options->trace,
                   "A W3C traceparent: the logs of all nodes that take part name it")
      ->type_name("TRACEPARENT");
  command->add_flag("--resume", options->resume,
                    "Between a file and a buffer: continue a copy that was cut off; only blocks "
                    "whose checksums differ at both ends move");
  command->add_flag("--tensors", options->tensors,
                    "Move the payload of a safetensors file and print the range of each tensor");
  command
      ->add_option("--deadline", options->deadline,
                   "Fail if the copy takes longer than this, as in --deadline 30s")
      ->type_name("TIME");
  command
      ->add_option("--message", options->message,
                   "Send this to the destination's watcher after the last byte has arrived")
      ->type_name("TEXT");
  command->add_flag("--dry-run", options->dry_run,
                    "Check everything and show the path; move nothing");
  command->add_flag("--detach", options->detach,
                    "Print the transfer's id and return; the transfer continues");
  command->footer(R"(Examples:
  onecopy cp ./weights.bin west:weights          a file into a buffer on another node
  onecopy cp weights west:weights --checksum     from buffer to buffer, verified
  onecopy cp ./weights.bin west:new --create=cuda:0   into a new buffer on west's GPU 0
  onecopy cp ./a.bin ./b.bin west: --create      a buffer each, called a.bin and b.bin
  onecopy cp ./model west:model --create         all files of a folder in one buffer, with an index
  onecopy cp west:model ./model/                 and back into a folder
  onecopy cp ./m.safetensors west:m --create --tensors   print the range of each tensor
  onecopy cp west:weights ./w.bin --resume       into a file; after kill -9, type it again to continue
  onecopy cp west:weights@0+4096 - | xxd | head  the beginning of a buffer
  onecopy cp west:/data/m.bin gpu0               a file on another node, from an exported folder
  onecopy cp gpu0 west:/data/new.bin --sync      into a file there, if exported for writing
  tar c logs | onecopy cp - west:logs            a pipe into a buffer
  onecopy cp ./model.bin gpu0 --also gpu1 --also west:gpu0   one file into three buffers, read once
  onecopy cp west:weights '{a,b,c}:weights'      from one node to three: each sends it on to the next
  onecopy cp cache west:cache --ranges f.jsonl   many ranges in one transfer, one per line:
    {"source": {"offset": 0, "bytes": "64KiB"}, "destination": {"offset": "1MiB", "bytes": "64KiB"}}
    {"source":{"offset":8,"bytes":4,"stride":32,"count":9},"destination":{"offset":0,"bytes":36}}
                                                 (a column: 9 elements, one every 32 bytes)
    {"source": {"buffer": "keys", "offset": 0, "bytes": 9}, "destination": {"offset": 36, "bytes": 9}}
                                                 (from another buffer on the same node)

Several files into one buffer: the buffer begins with an index, which is written last. The index is
8 bytes with its length (little-endian), then that many bytes of JSON, then zeros:
  {"files": [{"name": "a/b", "offset": 4096, "bytes": 7}, ...]}
A whole buffer with such an index goes back into files if DST is a folder, or ends in /.
Several files into a buffer each: a buffer is named after its file, with . in place of /. Small files
share requests, and cp prints one receipt for all files that took the same path. In a folder, cp
skips anything that is not a file, and says so on standard error.

Ctrl-C cancels the transfer and waits until no more bytes move; a second Ctrl-C exits at once.
With --resume, a file that is not complete stays beside the destination, as .NAME.onecopy-part; the
next cp --resume continues it, from any buffer, as only checksums decide what is kept. A copy without
--resume leaves nothing behind. A buffer that a copy of a file filled in part, with --resume or without,
is continued by cp --resume, which needs the right to read the buffer.
A new file gets its name when it is complete; a range of a file is written in place. ./ckpt@1000
is a range; for a file whose whole name is ckpt@1000, write ./ckpt@1000@0.
With - as DST the receipt goes to standard error.)");
  command->callback(
      [options, &chosen] { chosen = [options](Session& s) { return RunCp(s, *options); }; });
}

}  // namespace onecopy::cli
