#include <unistd.h>

#include <memory>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/copy_file.h"
#include "client/cli/cp_many.h"
#include "client/cli/interrupt.h"
#include "client/cli/made_buffer.h"
#include "client/cli/move_options.h"
#include "client/cli/output/progress.h"
#include "client/cli/output/report.h"
#include "client/cli/peer_notice.h"
#include "client/cli/tensors.h"
#include "client/cli/time_option.h"
#include "onecopy/reasons.h"

namespace onecopy::cli {
namespace {

using Kind = ParsedEndpoint::Kind;

struct CpOptions {
  std::vector<std::string> ends;  // as typed: the last one is where they go
  MoveOptions move;
  std::vector<std::string> also;  // further buffers for the same file
  std::string create;             // the memory of a buffer to be made; empty: none is
  bool keep_failed = false;
  bool checksum = false;
  bool sync = false;
  bool write_device = false;
  bool tensors = false;
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

Status Detach(Session& session, Client& client, const TransferRequest& request) {
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo transfer, client.StartTransfer(request));
  if (session.json()) {
    Print(session.out(), ToJson(transfer));
  } else if (session.quiet()) {
    session.out() << transfer.id.str() << '\n';
  } else {
    session.out() << "transfer " << transfer.id.str() << " started; `onecopy transfer watch "
                  << transfer.id.str() << "` shows how far it is\n";
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
    return {Code::kInvalidArgument, reasons::kBadArgument, "the bytes would go to this terminal",
            "redirect standard output: `onecopy cp … - > FILE`"};
  }
  const bool file = !IsOfDaemon(ends.source.kind) || !IsOfDaemon(ends.destination.kind);
  if (options.detach && file) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--detach needs two buffers: a file is read and written by this process",
            "leave --detach out, or run it in the background with `&`"};
  }
  if (!options.message.empty() && ends.destination.kind != Kind::kBuffer) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--message is for whoever watches the destination, and nobody watches a file",
            "leave --message out, or tell the source's owner: `onecopy buffer tell`"};
  }
  if (options.sync && ends.destination.kind == Kind::kBuffer) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--sync is for a file that is written, and the destination is a buffer",
            "leave it out"};
  }
  if (options.write_device && IsOfDaemon(ends.destination.kind)) {
    return {
        Code::kInvalidArgument, reasons::kBadArgument,
        "--write-device is for a block device here that is written, and the destination is " +
            std::string(ends.destination.kind == Kind::kBuffer ? "a buffer" : "on another node"),
        "leave it out"};
  }
  if (options.detach && options.dry_run) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--dry-run starts nothing that could be detached", "leave one of the two out"};
  }
  return OkStatus();
}

Status CheckCreate(const CpOptions& options) {
  const auto refuse = [](const std::string& what, const std::string& why) -> Status {
    return {Code::kInvalidArgument, reasons::kBadArgument, "--create and " + what + ": " + why,
            "leave one of the two out, or make the buffer first: onecopy buffer create"};
  };
  if (options.create.empty()) {
    if (!options.keep_failed) return OkStatus();
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--keep-failed says nothing without --create", "leave it out"};
  }
  if (options.dry_run) return refuse("--dry-run", "a plan needs a buffer that is there");
  if (options.detach) return refuse("--detach", "nobody would remove it after a failure");
  if (!options.move.ranges_file.empty()) {
    return refuse("--ranges", "how large a buffer is meant is not said");
  }
  return OkStatus();
}

// Several files, which this process reads one after the other.
Status RunMany(Session& session, const CpOptions& options, FileCopyOptions file_options) {
  if (options.dry_run || options.detach || options.sync || !options.move.ranges_file.empty() ||
      options.tensors || options.write_device) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--dry-run, --detach, --sync, --ranges, --tensors and --write-device are for one copy, "
            "and this is one of several files",
            "leave them out, or copy one file"};
  }
  ManyCopies copies;
  copies.sources.assign(options.ends.begin(), options.ends.end() - 1);
  copies.destination = options.ends.back();
  if (!options.create.empty()) copies.create = options.create;
  copies.keep_failed = options.keep_failed;
  copies.message = options.message;
  ONECOPY_ASSIGN_OR_RETURN(FileSet files, FilesOf(copies));
  const Interrupt interrupt;  // before the client's threads
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  file_options.stop = interrupt.token();
  return CopyMany(session, client, copies, std::move(files), file_options);
}

// One file into several buffers, and a receipt for each.
Status RunToSeveral(Session& session, const CpOptions& options, FileCopyOptions file_options) {
  if (options.dry_run || options.detach || options.sync || options.tensors ||
      options.write_device || !options.create.empty() || !options.message.empty() ||
      !options.move.ranges_file.empty()) {
    return {
        Code::kInvalidArgument, reasons::kBadArgument,
        "--also goes with none of --create, --detach, --dry-run, --message, --ranges, --sync and "
        "--write-device",
        "leave them out, or copy to each buffer on its own"};
  }
  ONECOPY_ASSIGN_OR_RETURN(MoveEnds ends, ParseEnds(options.move));
  const Interrupt interrupt;  // before the client's threads
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(ends, LocateFiles(std::move(ends), client.node()));
  std::vector<ParsedEndpoint> buffers = {ends.destination};
  for (const std::string& typed : options.also) {
    ONECOPY_ASSIGN_OR_RETURN(ParsedEndpoint end, ParseEndpoint(typed));
    buffers.push_back(std::move(end));
  }
  for (const ParsedEndpoint& end : buffers) {
    if (end.kind == Kind::kBuffer && ends.source.kind == Kind::kFile) continue;
    return {Code::kInvalidArgument, reasons::kBadEndpoint,
            "--also takes a file here as the source, and buffers alone as destinations",
            "copy from buffer to buffer, or to a file, one by one"};
  }
  ProgressBar bar(session.err(), StderrIsTerminal() && !session.quiet() && !session.json());
  file_options.stop = interrupt.token();
  file_options.on_progress = [&](uint64_t done, std::optional<uint64_t> total) {
    bar.Update(done, total);
  };
  const auto moves = CopyFileToAll(client, ends.source, buffers, file_options);
  bar.Clear();
  if (!moves.ok()) return moves.status();
  Json copies = Json::array();
  for (const Move& move : *moves) {
    if (session.json()) {
      copies.push_back(ToJson(move));
    } else if (!session.quiet()) {
      PrintReceipt(session.out(), move);
    }
  }
  if (session.json()) Print(session.out(), Json{{"copies", std::move(copies)}});
  return OkStatus();
}

Status RunCp(Session& session, const CpOptions& typed) {
  if (typed.ends.size() < 2) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "cp takes one source and one destination",
            "see `onecopy cp --help`: several sources are files or folders"};
  }
  CpOptions options = typed;
  options.move.source = options.ends.front();
  options.move.destination = options.ends.back();
  ONECOPY_RETURN_IF_ERROR(CheckCreate(options));
  std::optional<std::chrono::milliseconds> deadline;
  if (!options.deadline.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(deadline, ParseTimeOption("--deadline", options.deadline));
  }
  FileCopyOptions file_options;
  file_options.policy = options.move.policy;
  file_options.checksum = options.checksum;
  file_options.sync = options.sync;
  file_options.write_device = options.write_device;
  file_options.deadline = deadline;
  const bool of_many =
      IsOfMany({options.ends.begin(), options.ends.end() - 1}, options.ends.back());
  if (of_many && !options.also.empty()) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "--also is for one file, and this is one of several", "copy them one by one"};
  }
  if (!options.also.empty()) return RunToSeveral(session, options, std::move(file_options));
  if (of_many) {
    return RunMany(session, options, std::move(file_options));
  }
  ONECOPY_ASSIGN_OR_RETURN(MoveEnds ends, ParseEnds(options.move));
  const Interrupt interrupt;  // before the client's threads
  ONECOPY_ASSIGN_OR_RETURN(Client client, session.Connect());
  ONECOPY_ASSIGN_OR_RETURN(ends, LocateFiles(std::move(ends), client.node()));
  ONECOPY_RETURN_IF_ERROR(CheckOptions(options, ends));
  ONECOPY_ASSIGN_OR_RETURN(const RangeList ranges, RangesOf(options.move, ends));
  file_options.ranges = ranges.ranges;
  TensorFile tensors;
  if (options.tensors) {
    ONECOPY_ASSIGN_OR_RETURN(tensors, OpenTensors(&ends));
  }
  if (ends.destination.kind == Kind::kStream && !options.dry_run) session.LeaveStdoutToPayload();
  if (options.dry_run)
    return Suggest(DryRun(session, client, ends, file_options, ranges), ends, client.node());
  TransferRequest request;
  ranges.AddTo(&request);
  request.source = ends.source.ToEndpoint();
  request.destination = ends.destination.ToEndpoint();
  request.policy = options.move.policy;
  request.checksum = options.checksum;
  request.sync = options.sync;
  request.deadline = deadline;
  request.message = options.message;
  if (options.detach) return Suggest(Detach(session, client, request), ends, client.node());

  PeerNotice notice(client, {ends.source, ends.destination}, session.err(), !session.quiet());
  ProgressBar bar(session.err(), StderrIsTerminal() && !session.quiet() && !session.json());
  file_options.stop = interrupt.token();
  file_options.on_progress = [&](uint64_t done, std::optional<uint64_t> total) {
    bar.Update(done, total);
    notice.Progress(done);
  };
  std::optional<BufferInfo> made;
  if (!options.create.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(client, ends.source));
    ONECOPY_ASSIGN_OR_RETURN(made, MakeBuffer(client, ends.destination, bytes, options.create));
    if (ends.source.kind == Kind::kFile) {  // which may have grown meanwhile
      ends.source.offset_bytes = ends.source.offset_bytes.value_or(0);
      ends.source.bytes = bytes;
    }
  }
  const bool buffers = IsOfDaemon(ends.source.kind) && IsOfDaemon(ends.destination.kind);
  auto move = buffers ? CopyBuffers(client, request, bar, notice, interrupt.token())
                      : CopyFile(client, ends, file_options, tensors.fd.get());
  bar.Clear();
  if (!move.ok()) {
    const bool unmake = made && !options.keep_failed;
    const Status why = unmake ? Unmake(client, *made, move.status()) : move.status();
    return Suggest(why, ends, client.node());
  }
  // A file goes in windows: what is said of it is said of the whole.
  if (!buffers && !options.message.empty()) {
    const Status told =
        client.SendMessage({.destination = {ends.destination.node, ends.destination.name},
                            .message = options.message});
    if (!told.ok()) return told.WithContext("the bytes have arrived, the message has not");
  }
  if (session.json()) {
    Json document = ToJson(*move);
    if (options.tensors) {
      document["tensors"] = TensorsToJson(tensors.header, ends.destination, client.node());
    }
    Print(session.out(), document);
  } else if (!session.quiet()) {
    PrintReceipt(session.out(), *move);
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
          "Where the bytes are: a buffer, a file here, or -; or several files and folders. "
          "Where they should be: a buffer, a file here, or -")
      ->required()
      ->expected(1, 1 << 20);
  AddPolicyOptions(*command, options->move);
  command
      ->add_option(
          "--also", options->also,
          "Of a file: this buffer gets it, too, copied onwards from the first, so that it is "
          "read once; any number of times")
      ->type_name("DST");
  command->add_flag("--create{host}", options->create,
                    "Make the buffer that DST names: of host memory, or as in --create=cuda:0. It "
                    "is removed again if the copy fails");
  command->add_flag("--keep-failed", options->keep_failed,
                    "With --create: leave it as it is, instead");
  command->add_flag("--checksum", options->checksum,
                    "Compare checksums of both ends after the bytes have arrived");
  command->add_flag("--sync", options->sync,
                    "A file counts as copied once the disk has it, and its name (fsync)");
  command->add_flag("--write-device", options->write_device,
                    "Write a block device, whose bytes are lost; without this it is refused");
  command->add_flag("--tensors", options->tensors,
                    "Move the payload of a safetensors file, and name the range of each tensor");
  command
      ->add_option("--deadline", options->deadline,
                   "Fail when it is not done after this time, as in --deadline 30s")
      ->type_name("TIME");
  command
      ->add_option("--message", options->message,
                   "Tell this to whoever watches the destination, once all bytes are there")
      ->type_name("TEXT");
  command->add_flag("--dry-run", options->dry_run,
                    "Check everything and show the path; move nothing");
  command->add_flag("--detach", options->detach,
                    "Print the transfer's id and let it go on without this process");
  command->footer(R"(Examples:
  onecopy cp ./weights.bin west:weights          a file into a buffer on another node
  onecopy cp weights east:weights --checksum     from buffer to buffer, verified
  onecopy cp ./weights.bin west:new --create=cuda:0   a buffer there is made for it
  onecopy cp ./a.bin ./b.bin west: --create      a buffer each, called a.bin and b.bin
  onecopy cp ./model west:model --create         all files of a folder in one buffer, with an index
  onecopy cp ./m.safetensors west:m --create --tensors   and where each tensor is then
  onecopy cp west:weights@0+4096 - | xxd | head  the beginning of a buffer
  onecopy cp west:/data/m.bin gpu0               a file of another node, which exports its folder
  onecopy cp gpu0 west:/data/new.bin --sync      into one there, where that is exported for writing
  tar c logs | onecopy cp - west:logs            a pipe into a buffer
  onecopy cp ./model.bin gpu0 --also gpu1 --also west:gpu0   a file that is read once, in three
  onecopy cp cache west:cache --ranges f.jsonl   many ranges in one transfer, a line for each:
    {"source": {"offset": 0, "bytes": "64KiB"}, "destination": {"offset": "1MiB", "bytes": "64KiB"}}
    {"source": {"offset": 8, "bytes": 4, "stride": 32, "count": 1000},
     "destination": {"offset": 0, "bytes": 4000}}   (a column: 1000 elements, one every 32 bytes)
    {"source": {"buffer": "keys", "offset": 0, "bytes": 9}, "destination": {"offset": 8, "bytes": 9}}
                                                 (out of another buffer of the same node)

The index of several files is at the beginning of their buffer: 8 bytes with a length, least byte
first, so many bytes of JSON ({"files": [{"name": "a/b", "offset": 4096, "bytes": 7}, ...]}), and
zeros. It is written last. A buffer each is called as its file, with . for / in a folder. Small files
share requests; what is printed is the receipt of all that went one way. What in a folder is not a
file is left out, with a line on standard error.

Ctrl-C cancels the transfer and waits until nothing moves any more; a second one leaves at once.
A file gets its name once all of it is there; a range of a file is written in place. ./ckpt@1000 is
a range; a file of that whole name is ./ckpt@1000@0.
With - as DST the receipt goes to standard error.)");
  command->callback(
      [options, &chosen] { chosen = [options](Session& s) { return RunCp(s, *options); }; });
}

}  // namespace onecopy::cli
