#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "client/lib/calls/call_limit.h"
#include "client/lib/files/moved_file.h"
#include "client/lib/files/output_file.h"
#include "client/lib/files/proof.h"
#include "client/lib/files/resumed_copy.h"
#include "client/lib/files/windows.h"
#include "client/lib/memory/remote_range.h"
#include "onecopy/file_copy.h"

namespace onecopy {
namespace {

using client::FilePart;
using client::OutputFile;
using client::RemoteRange;
using client::Windows;

// What is moved of a range, and where the file's first byte of the range goes.
Status Pump(const RemoteRange& range, const std::vector<ByteRange>& pieces, uint64_t window_bytes,
            OutputFile& output, Windows& windows) {
  const uint64_t begin = output.at();
  std::deque<uint64_t> places;  // of the windows that are under way
  uint64_t written = 0;
  const auto finish = [&](Windows::Window& window) -> Status {
    ONECOPY_ASSIGN_OR_RETURN(const bool ran, windows.Finish(window));
    if (!ran) return OkStatus();
    output.Seek(begin + places.front());
    places.pop_front();
    ONECOPY_RETURN_IF_ERROR(output.Write(window.memory.data(), window.bytes, windows.waiter()));
    written += window.bytes;
    windows.Progress(written);
    return OkStatus();
  };
  for (const ByteRange& piece : pieces) {
    uint64_t started = 0;
    // An empty range is a transfer of no bytes, so that it is checked and has a receipt like any
    // other.
    do {
      Windows::Window& window = windows.Next();
      ONECOPY_RETURN_IF_ERROR(finish(window));
      const uint64_t bytes = std::min(window_bytes, piece.bytes - started);
      const uint64_t place = piece.offset + started;
      ONECOPY_RETURN_IF_ERROR(windows.StartInto(window, range.Piece(place, bytes), bytes));
      places.push_back(place);
      started += bytes;
    } while (started < piece.bytes);
  }
  for (size_t i = 0; i < windows.count(); ++i) ONECOPY_RETURN_IF_ERROR(finish(windows.Next()));
  return output.Settle();
}

FilePart PartOf(const Client& client, const LocalFile& file, int fd, uint64_t at, uint64_t bytes,
                bool is_new) {
  return {client::FileEnd(client, file).file, fd, at, bytes, true, is_new};
}

// How far the file is written, from where it begins.
uint64_t BytesIn(const RemoteRange& range, const FileCopyOptions& options) {
  return options.ranges.empty() ? range.bytes
                                : client::EndOf(options.ranges, &RangePair::destination);
}

OutputFile::Ask AskOf(const FileCopyOptions& options) {
  return {.sync = options.sync,
          .read_back = options.checksum,
          .in_place = !options.ranges.empty(),
          .write_device = options.write_device};
}

uint64_t WindowBytes(const RemoteRange& range, const FileCopyOptions& options) {
  return std::max<uint64_t>(1, std::min(options.window_bytes, range.bytes));
}

// Moves these pieces of the range, and gives the file its name.
Result<FileCopy> Move(Client& client, const RemoteRange& range,
                      const std::vector<ByteRange>& pieces, const LocalFile& destination,
                      OutputFile& output, const FileCopyOptions& options,
                      std::unique_ptr<client::Waiter> waiter) {
  const client::PiecesRequest request =
      client::RequestOf(PartOf(client, destination, output.fd(), output.at(),
                               BytesIn(range, options), output.is_new()),
                        range, pieces, options);
  if (client::DaemonMoves(client, request.file, request.range, request.options)) {
    output.LetOthersWrite();
    Result<FileCopy> copy =
        client::MoveFile(client, request.file, request.range, request.options, *waiter);
    if (copy.ok()) ONECOPY_RETURN_IF_ERROR(output.Commit());
    if (copy.ok() || !client::MayGoByWindows(client, range, copy.status())) return copy;
  }
  ONECOPY_RETURN_IF_ERROR(client::CheckRanges(options, destination.path));
  const uint64_t window_bytes = WindowBytes(range, options);
  const Windows::Copy copy{range.whole(), client::FileEnd(client, destination),
                           client::BytesOf(pieces)};
  ONECOPY_ASSIGN_OR_RETURN(const auto windows,
                           Windows::Open(client, options, std::move(waiter), copy, window_bytes));
  if (const Status status = Pump(range, pieces, window_bytes, output, *windows); !status.ok()) {
    return windows->Fail(status);
  }
  // Until the daemon has confirmed it the copy can still fail, and what was there is left alone.
  ONECOPY_ASSIGN_OR_RETURN(FileCopy whole, windows->Complete());
  if (Status named = output.Name(); !named.ok()) {
    return named.WithContext("all bytes arrived by transfer " + whole.id.str() +
                             ", but the file did not get its name");
  }
  return whole;
}

Result<FileCopy> Continue(Client& client, const RemoteRange& range, const LocalFile& destination,
                          OutputFile& output, const FileCopyOptions& options,
                          std::unique_ptr<client::Waiter> waiter) {
  client::Proof proof{0, {{0, range.bytes}}};
  if (output.is_new() && output.whole() >= 0 && range.bytes > 0) {
    ONECOPY_ASSIGN_OR_RETURN(
        const client::Proof whole,
        client::ProveBlocks(client, {destination.path, output.whole(), 0, false, true}, range,
                            *waiter));
    if (whole.missing.empty()) {
      ONECOPY_RETURN_IF_ERROR(output.KeepWhole());
      return client::AllProven(range.bytes);
    }
  }
  ONECOPY_RETURN_IF_ERROR(output.SetLength(range.bytes));
  if (!output.is_new() && range.bytes > 0) {
    ONECOPY_ASSIGN_OR_RETURN(
        proof, client::ProveBlocks(client, {output.partial(), output.fd(), 0, true, false}, range,
                                   *waiter));
  }
  // Only for what must move: a disk that is full has no space for what is there already.
  ONECOPY_RETURN_IF_ERROR(output.Reserve(proof.missing));
  if (proof.missing.empty()) {
    ONECOPY_RETURN_IF_ERROR(output.Commit());
    return client::AllProven(proof.proven_bytes);
  }
  ONECOPY_ASSIGN_OR_RETURN(FileCopy copy,
                           Move(client, range, proof.missing, destination, output,
                                client::OptionsAfter(proof, options), std::move(waiter)));
  copy.proven_bytes = proof.proven_bytes;
  return copy;
}

}  // namespace

Result<FileCopy> CopyBufferToFile(Client& client, const Endpoint& source,
                                  const LocalFile& destination, const FileCopyOptions& options) {
  const client::CallLimit limit(client::CallLimit::For(options.deadline));
  ONECOPY_RETURN_IF_ERROR(client::CheckResume(options));
  ONECOPY_ASSIGN_OR_RETURN(auto waiter, client::Waiter::Make(options.stop, options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(const RemoteRange range,
                           client::FindRange(client, source, waiter.get()));
  const uint64_t bytes = BytesIn(range, options);
  if (!options.resume) {
    ONECOPY_ASSIGN_OR_RETURN(OutputFile output,
                             OutputFile::Open(destination, bytes, AskOf(options)));
    return Move(client, range, {{0, range.bytes}}, destination, output, options, std::move(waiter));
  }
  ONECOPY_ASSIGN_OR_RETURN(OutputFile output,
                           OutputFile::Continue(destination, bytes, AskOf(options), *waiter));
  Result<FileCopy> copy = Continue(client, range, destination, output, options, std::move(waiter));
  if (copy.ok() || output.DiscardIfEmpty() || !output.HasPartial()) return copy;
  return copy.status().WithContext("for the next --resume, " + output.partial() + " beside " +
                                   destination.path + " keeps what has arrived");
}

Result<Plan> PlanBufferToFile(Client& client, const Endpoint& source, const LocalFile& destination,
                              const FileCopyOptions& options) {
  ONECOPY_ASSIGN_OR_RETURN(const RemoteRange range, client::FindRange(client, source));
  const uint64_t bytes = BytesIn(range, options);
  ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd sample,
                           OutputFile::Sample(destination, bytes, AskOf(options)));
  if (const FilePart part = PartOf(client, destination, sample.get(),
                                   destination.offset_bytes.value_or(0), bytes, false);
      client::DaemonMoves(client, part, range, options)) {
    Result<Plan> plan = client::PlanFile(client, part, range, options);
    if (plan.ok() || !client::MayGoByWindows(client, range, plan.status())) return plan;
  }
  ONECOPY_RETURN_IF_ERROR(client::CheckRanges(options, destination.path));
  const uint64_t window_bytes = std::min(WindowBytes(range, options), range.bytes);
  ONECOPY_ASSIGN_OR_RETURN(
      const HostBuffer window,
      client.CreateHostBuffer("", std::max<uint64_t>(1, window_bytes), HostPages::kWhenTouched));
  TransferRequest request;
  request.source = range.Piece(0, window_bytes);
  request.destination = window.endpoint(0, window_bytes);
  request.policy = options.policy;
  request.pacing = options.pacing;
  request.trace = options.trace;
  request.policy.client_file = true;
  ONECOPY_ASSIGN_OR_RETURN(Plan plan, client.PlanTransfer(request));
  plan.steps.push_back(client::ClientStep(client.node(), false));
  return plan;
}

}  // namespace onecopy
