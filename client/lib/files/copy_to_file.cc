#include <algorithm>
#include <utility>

#include "client/lib/calls/call_limit.h"
#include "client/lib/files/moved_file.h"
#include "client/lib/files/output_file.h"
#include "client/lib/files/windows.h"
#include "client/lib/memory/remote_range.h"
#include "onecopy/file_copy.h"

namespace onecopy {
namespace {

using client::FilePart;
using client::OutputFile;
using client::RemoteRange;
using client::Windows;

Status Pump(const RemoteRange& range, uint64_t window_bytes, OutputFile& output, Windows& windows) {
  uint64_t started = 0;
  uint64_t written = 0;
  bool first = true;
  const auto finish = [&](Windows::Window& window) -> Status {
    ONECOPY_ASSIGN_OR_RETURN(const bool ran, windows.Finish(window));
    if (!ran) return OkStatus();
    ONECOPY_RETURN_IF_ERROR(output.Write(window.memory.data(), window.bytes, windows.waiter()));
    written += window.bytes;
    windows.Progress(written);
    return OkStatus();
  };
  // An empty range is a transfer of no bytes, so that it is checked and has a receipt like any
  // other.
  while (first || started < range.bytes) {
    Windows::Window& window = windows.Next();
    ONECOPY_RETURN_IF_ERROR(finish(window));
    const uint64_t piece = std::min(window_bytes, range.bytes - started);
    ONECOPY_RETURN_IF_ERROR(windows.StartInto(window, range.Piece(started, piece), piece));
    started += piece;
    first = false;
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

}  // namespace

Result<FileCopy> CopyBufferToFile(Client& client, const Endpoint& source,
                                  const LocalFile& destination, const FileCopyOptions& options) {
  const client::CallLimit limit(client::CallLimit::For(options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(auto waiter, client::Waiter::Make(options.stop, options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(const RemoteRange range,
                           client::FindRange(client, source, waiter.get()));
  const uint64_t bytes = BytesIn(range, options);
  ONECOPY_ASSIGN_OR_RETURN(OutputFile output, OutputFile::Open(destination, bytes, AskOf(options)));
  if (const FilePart part =
          PartOf(client, destination, output.fd(), output.at(), bytes, output.is_new());
      client::DaemonMoves(client, part, range, options)) {
    Result<FileCopy> copy = client::MoveFile(client, part, range, options, *waiter);
    if (copy.ok()) ONECOPY_RETURN_IF_ERROR(output.Commit());
    if (copy.ok() || !client::MayGoByWindows(client, range, copy.status())) return copy;
  }
  ONECOPY_RETURN_IF_ERROR(client::CheckRanges(options, destination.path));
  const uint64_t window_bytes = WindowBytes(range, options);
  const Windows::Copy copy{range.whole(), client::FileEnd(client, destination), range.bytes};
  ONECOPY_ASSIGN_OR_RETURN(const auto windows,
                           Windows::Open(client, options, std::move(waiter), copy, window_bytes));
  if (const Status status = Pump(range, window_bytes, output, *windows); !status.ok()) {
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
  request.policy.client_file = true;
  ONECOPY_ASSIGN_OR_RETURN(Plan plan, client.PlanTransfer(request));
  plan.steps.push_back(client::ClientStep(client.node(), false));
  return plan;
}

}  // namespace onecopy
