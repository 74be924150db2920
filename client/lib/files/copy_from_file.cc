#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/lib/calls/call_limit.h"
#include "client/lib/calls/wire.h"
#include "client/lib/files/gathered_input.h"
#include "client/lib/files/input_file.h"
#include "client/lib/files/moved_file.h"
#include "client/lib/files/proof.h"
#include "client/lib/files/resumed_copy.h"
#include "client/lib/files/windows.h"
#include "client/lib/memory/remote_range.h"
#include "onecopy/file_copy.h"
#include "onecopy/reasons.h"

namespace onecopy {
namespace {

using client::FilePart;
using client::GatheredInput;
using client::InputFile;
using client::RemoteRange;
using client::Windows;

// Of an InputFile or a GatheredInput, here and below.
template <typename Input>
Status TooLong(const Input& input, const std::string& length, const RemoteRange& range) {
  return {Code::kInvalidArgument, reasons::kSizeMismatch,
          input.name() + " has " + length + ", and " + range.buffer.node + ":" + range.buffer.name +
              " room for " + std::to_string(range.bytes),
          "make a larger buffer, or give a range of the file: FILE@OFFSET+LENGTH"};
}

Status CheckFits(const InputFile& input, const RemoteRange& range, const FileCopyOptions& options) {
  if (!options.ranges.empty()) return OkStatus();  // the daemon sees to that
  if (!input.bytes().has_value() || *input.bytes() <= range.bytes) return OkStatus();
  return TooLong(input, std::to_string(*input.bytes()) + " bytes", range);
}

// A stream that has filled the range must end there.
template <typename Input>
Status CheckEnded(Input& input, const RemoteRange& range, const client::Waiter& waiter) {
  std::byte extra{};
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t more, input.Read(&extra, 1, waiter));
  if (more == 0) return OkStatus();
  return TooLong(input, "more than " + std::to_string(range.bytes) + " bytes", range);
}

// Waits until the window can be filled again, and tells what has arrived so far.
Status Empty(Windows& windows, Windows::Window& window, uint64_t* arrived) {
  ONECOPY_ASSIGN_OR_RETURN(const bool ran, windows.Finish(window));
  if (!ran) return OkStatus();
  *arrived += window.bytes;
  windows.Progress(*arrived);
  return OkStatus();
}

template <typename Input>
Status Pump(Input& input, const RemoteRange& range, uint64_t window_bytes, Windows& windows) {
  uint64_t read = 0;
  uint64_t arrived = 0;
  for (bool more = true; more;) {
    Windows::Window& window = windows.Next();
    ONECOPY_RETURN_IF_ERROR(Empty(windows, window, &arrived));
    const uint64_t want = std::min(window_bytes, range.bytes - read);
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t got,
                             input.Read(window.memory.data(), want, windows.waiter()));
    if (got == want && read + got == range.bytes) {
      ONECOPY_RETURN_IF_ERROR(CheckEnded(input, range, windows.waiter()));
    }
    // An empty file is a transfer of no bytes, so that it is checked and has a receipt like any
    // other.
    if (got > 0 || read == 0) {
      ONECOPY_RETURN_IF_ERROR(windows.StartFrom(window, range.Piece(read, got), got));
    }
    read += got;
    more = got == window_bytes && read < std::min(range.bytes, input.bytes().value_or(range.bytes));
  }
  for (size_t i = 0; i < windows.count(); ++i)
    ONECOPY_RETURN_IF_ERROR(Empty(windows, windows.Next(), &arrived));
  return OkStatus();
}

Status PumpPieces(InputFile& input, const RemoteRange& range, const std::vector<ByteRange>& pieces,
                  uint64_t window_bytes, Windows& windows) {
  uint64_t arrived = 0;
  for (const ByteRange& piece : pieces) {
    input.Seek(piece.offset);
    for (uint64_t done = 0; done < piece.bytes;) {
      Windows::Window& window = windows.Next();
      ONECOPY_RETURN_IF_ERROR(Empty(windows, window, &arrived));
      const uint64_t want = std::min(window_bytes, piece.bytes - done);
      ONECOPY_ASSIGN_OR_RETURN(const uint64_t got,
                               input.Read(window.memory.data(), want, windows.waiter()));
      ONECOPY_RETURN_IF_ERROR(
          windows.StartFrom(window, range.Piece(piece.offset + done, got), got));
      done += got;
    }
  }
  for (size_t i = 0; i < windows.count(); ++i)
    ONECOPY_RETURN_IF_ERROR(Empty(windows, windows.Next(), &arrived));
  return OkStatus();
}

template <typename Input>
uint64_t WindowBytes(const Input& input, const RemoteRange& range, const FileCopyOptions& options) {
  return std::max<uint64_t>(
      1,
      std::min(options.window_bytes, std::min(range.bytes, input.bytes().value_or(range.bytes))));
}

template <typename Input>
Result<FileCopy> CopyByWindows(Client& client, Endpoint source, Input& input,
                               const RemoteRange& range, const FileCopyOptions& options,
                               std::unique_ptr<client::Waiter> waiter) {
  const uint64_t window_bytes = WindowBytes(input, range, options);
  const Windows::Copy copy{std::move(source), range.whole(), input.bytes()};
  ONECOPY_ASSIGN_OR_RETURN(const auto windows,
                           Windows::Open(client, options, std::move(waiter), copy, window_bytes));
  if (const Status status = Pump(input, range, window_bytes, *windows); !status.ok()) {
    return windows->Fail(status);
  }
  return windows->Complete();
}

FilePart PartOf(const Client& client, const LocalFile& file, const InputFile& input) {
  return {client::FileEnd(client, file).file, input.fd(), input.at(), input.bytes().value_or(0),
          false};
}

// Of a file that has offsets; only what the buffer does not have already.
Result<FileCopy> Continue(Client& client, const LocalFile& source, InputFile& input,
                          const RemoteRange& buffer, const FileCopyOptions& options,
                          std::unique_ptr<client::Waiter> waiter) {
  if (input.fd() < 0 || !input.bytes()) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "only the copy of a file can be continued, and " + input.name() +
                      " is a stream, which is read only once",
                  "leave out --resume");
  }
  RemoteRange range = buffer;
  range.bytes = *input.bytes();
  ONECOPY_ASSIGN_OR_RETURN(
      const client::Proof proof,
      client::ProveBlocks(client, {input.name(), input.fd(), input.at(), false, false}, range,
                          *waiter));
  if (proof.missing.empty()) return client::AllProven(proof.proven_bytes);
  const FileCopyOptions after = client::OptionsAfter(proof, options);
  const auto counted = [&proof](FileCopy copy) {
    copy.proven_bytes = proof.proven_bytes;
    return copy;
  };
  const client::PiecesRequest request =
      client::RequestOf(PartOf(client, source, input), range, proof.missing, after);
  if (client::DaemonMoves(client, request.file, request.range, request.options)) {
    Result<FileCopy> copy =
        client::MoveFile(client, request.file, request.range, request.options, *waiter);
    if (copy.ok()) return counted(*std::move(copy));
    if (!client::MayGoByWindows(client, range, copy.status())) return copy;
  }
  const uint64_t window_bytes = WindowBytes(input, range, options);
  const Windows::Copy copy{client::FileEnd(client, source), range.whole(),
                           client::BytesOf(proof.missing)};
  ONECOPY_ASSIGN_OR_RETURN(const auto windows,
                           Windows::Open(client, after, std::move(waiter), copy, window_bytes));
  if (const Status status = PumpPieces(input, range, proof.missing, window_bytes, *windows);
      !status.ok()) {
    return windows->Fail(status);
  }
  ONECOPY_ASSIGN_OR_RETURN(FileCopy whole, windows->Complete());
  return counted(std::move(whole));
}

}  // namespace

Result<FileCopy> CopyFileToBuffer(Client& client, const LocalFile& source,
                                  const Endpoint& destination, const FileCopyOptions& options) {
  const client::CallLimit limit(client::CallLimit::For(options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(auto waiter, client::Waiter::Make(options.stop, options.deadline));
  ONECOPY_RETURN_IF_ERROR(client::CheckResume(options));
  ONECOPY_ASSIGN_OR_RETURN(InputFile input, InputFile::Open(source));
  ONECOPY_ASSIGN_OR_RETURN(const RemoteRange range,
                           client::FindRange(client, destination, waiter.get()));
  ONECOPY_RETURN_IF_ERROR(CheckFits(input, range, options));
  // An empty file is copied as ever.
  if (options.resume && input.bytes() != uint64_t{0}) {
    return Continue(client, source, input, range, options, std::move(waiter));
  }
  if (const FilePart part = PartOf(client, source, input);
      input.bytes() && client::DaemonMoves(client, part, range, options)) {
    Result<FileCopy> copy = client::MoveFile(client, part, range, options, *waiter);
    if (copy.ok() || !client::MayGoByWindows(client, range, copy.status())) return copy;
  }
  ONECOPY_RETURN_IF_ERROR(client::CheckRanges(options, source.path));
  return CopyByWindows(client, client::FileEnd(client, source), input, range, options,
                       std::move(waiter));
}

Result<FileCopy> CopyFilesToBuffer(Client& client, std::span<const PlacedFile> files,
                                   const Endpoint& destination, const FileCopyOptions& options) {
  const client::CallLimit limit(client::CallLimit::For(options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(auto waiter, client::Waiter::Make(options.stop, options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(GatheredInput input, GatheredInput::Of(files));
  ONECOPY_RETURN_IF_ERROR(client::RefuseResume(options, "files"));
  if (!options.ranges.empty()) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "ranges need exactly one file, and there are several",
                  "copy the files separately");
  }
  ONECOPY_ASSIGN_OR_RETURN(RemoteRange range, client::FindRange(client, destination, waiter.get()));
  const uint64_t first = files.front().offset_bytes;
  ONECOPY_RETURN_IF_ERROR(CheckWithin({first, *input.bytes()}, range.bytes,
                                      "the range of buffer " + range.buffer.name));
  range.offset += first;
  range.bytes = *input.bytes();
  Endpoint source = client::FileEnd(client, files.front().file);
  source.file = client::ShownText(input.name());
  source.offset_bytes = source.bytes = std::nullopt;
  return CopyByWindows(client, std::move(source), input, range, options, std::move(waiter));
}

Result<Plan> PlanFileToBuffer(Client& client, const LocalFile& source, const Endpoint& destination,
                              const FileCopyOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(const InputFile input, InputFile::Open(source));
  ONECOPY_ASSIGN_OR_RETURN(const RemoteRange range, client::FindRange(client, destination));
  ONECOPY_RETURN_IF_ERROR(CheckFits(input, range, options));
  if (const FilePart part = PartOf(client, source, input);
      input.bytes() && client::DaemonMoves(client, part, range, options)) {
    Result<Plan> plan = client::PlanFile(client, part, range, options);
    if (plan.ok() || !client::MayGoByWindows(client, range, plan.status())) return plan;
  }
  ONECOPY_RETURN_IF_ERROR(client::CheckRanges(options, source.path));
  const uint64_t window_bytes = WindowBytes(input, range, options);
  ONECOPY_ASSIGN_OR_RETURN(const HostBuffer window,
                           client.CreateHostBuffer("", window_bytes, HostPages::kWhenTouched));
  const uint64_t bytes = std::min(window_bytes, input.bytes().value_or(range.bytes));
  TransferRequest request;
  request.source = window.endpoint(0, bytes);
  request.destination = range.Piece(0, bytes);
  request.policy = options.policy;
  request.pacing = options.pacing;
  request.trace = options.trace;
  request.policy.client_file = true;
  ONECOPY_ASSIGN_OR_RETURN(Plan plan, client.PlanTransfer(request));
  plan.steps.insert(plan.steps.begin(), client::ClientStep(client.node(), true));
  return plan;
}

}  // namespace onecopy
