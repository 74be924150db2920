// Many small files into a buffer each.
#include <algorithm>
#include <chrono>
#include <utility>

#include "client/lib/calls/call_limit.h"
#include "client/lib/calls/waiter.h"
#include "client/lib/files/input_file.h"
#include "client/lib/files/resumed_copy.h"
#include "client/lib/files/windows.h"
#include "onecopy/file_copy.h"
#include "onecopy/reasons.h"

namespace onecopy {
namespace {

using client::InputFile;
using client::Waiter;
using Clock = std::chrono::steady_clock;
using Files = std::span<const FileToBuffer>;

Status CheckFiles(Files files, const FileCopyOptions& options) {
  const auto refuse = [](const std::string& what, const std::string& remedy) -> Status {
    return {Code::kInvalidArgument, reasons::kBadArgument, what, remedy};
  };
  if (files.empty()) return refuse("no file was named", "name at least one");
  ONECOPY_RETURN_IF_ERROR(client::RefuseResume(options, "files"));
  if (!options.ranges.empty()) {
    return refuse("ranges need exactly one file, and there are several",
                  "copy the files separately");
  }
  for (const FileToBuffer& each : files) {
    if (!each.file.bytes || *each.file.bytes == 0 || *each.file.bytes > options.window_bytes) {
      return refuse(
          "the length of " + each.file.path + " is unknown, 0, or more than a window can hold",
          "leave out empty files, and copy large files separately");
    }
    if (each.buffer.node != files.front().buffer.node) {
      return refuse("the buffers are on several nodes", "run one copy for each node");
    }
  }
  return OkStatus();
}

// As many of the files as one request takes, and one window.
Files TakeGroup(Files& files, uint64_t window_bytes) {
  size_t count = 0;
  uint64_t bytes = 0;
  while (count < std::min(files.size(), kMaxBuffers) &&
         bytes + *files[count].file.bytes <= window_bytes) {
    bytes += *files[count++].file.bytes;
  }
  const Files group = files.first(count);
  files = files.subspan(count);
  return group;
}

// Reads the files one behind the other, and asks for all of them to be moved on.
Result<TransferInfo> MoveGroup(Client& client, Files group, const HostBuffer& window,
                               const FileCopyOptions& options, const Waiter& waiter) {
  TransferRequest request;
  uint64_t at = 0;
  for (const FileToBuffer& each : group) {
    const uint64_t bytes = *each.file.bytes;
    ONECOPY_ASSIGN_OR_RETURN(InputFile input, InputFile::Open(each.file));
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t got, input.Read(window.data() + at, bytes, waiter));
    if (got < bytes) {
      return Status(Code::kDataLoss, reasons::kIo,
                    each.file.path + " became shorter while it was read",
                    "copy it again while no other program changes it");
    }
    const auto number = static_cast<uint32_t>(request.ranges.size());
    request.ranges.push_back({{at, bytes}, {0, bytes}, 0, number});
    if (number > 0) request.more_destinations.push_back(each.buffer);
    at += bytes;
  }
  request.source = window.endpoint(0, at);
  request.destination = group.front().buffer;
  request.policy = options.policy;
  request.pacing = options.pacing;
  request.trace = options.trace;
  request.policy.client_file = true;
  request.checksum = options.checksum;
  request.deadline = waiter.Remaining();
  ONECOPY_ASSIGN_OR_RETURN(TransferInfo moved, client.RunTransfer(request, {}, waiter.stop()));
  ONECOPY_RETURN_IF_ERROR(OutcomeOf(moved));
  return moved;
}

}  // namespace

Result<FileCopy> CopyFilesToBuffers(Client& client, std::span<const FileToBuffer> files,
                                    const FileCopyOptions& options) {
  const client::CallLimit limit(client::CallLimit::For(options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(const auto waiter, Waiter::Make(options.stop, options.deadline));
  ONECOPY_RETURN_IF_ERROR(CheckFiles(files, options));
  const Clock::time_point begun = Clock::now();
  uint64_t total = 0;
  for (const FileToBuffer& each : files) total += *each.file.bytes;
  ONECOPY_ASSIGN_OR_RETURN(
      const HostBuffer window,
      client.CreateHostBuffer("", std::min<uint64_t>(total, options.window_bytes)));
  FileCopy copy;
  while (!files.empty()) {
    const Files group = TakeGroup(files, window.bytes());
    ONECOPY_RETURN_IF_ERROR(waiter->Check());
    Result<TransferInfo> moved = MoveGroup(client, group, window, options, *waiter);
    if (!moved.ok()) {
      if (copy.bytes == 0) return moved.status();
      return moved.status().WithContext("after " + std::to_string(copy.bytes) +
                                        " bytes had arrived");
    }
    if (copy.windows++ == 0) copy.id = moved->id;
    copy.bytes += moved->bytes;
    MergeReceipt(moved->receipt, copy.receipt);
    copy.receipt.checksum = moved->receipt.checksum;
    if (options.on_progress) options.on_progress(copy.bytes, total);
  }
  Receipt& receipt = copy.receipt;
  receipt.steps.insert(receipt.steps.begin(), {client::ClientStep(client.node(), true), total});
  receipt.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  receipt.asked_seconds = receipt.seconds;
  receipt.bytes_per_second = receipt.seconds > 0 ? static_cast<double>(total) / receipt.seconds : 0;
  return copy;
}

}  // namespace onecopy
