#include "client/lib/files/windows.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "client/lib/calls/wire.h"
#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

// A daemon keeps the end of so many windows until they are asked for, and of more.
constexpr unsigned kMaxWindows = 64;

}  // namespace

Endpoint FileEnd(const Client& client, const LocalFile& file) {
  Endpoint end;
  end.node = client.node();
  end.offset_bytes = file.offset_bytes;
  end.bytes = file.bytes;
  std::error_code unknown;
  const std::filesystem::path whole = std::filesystem::absolute(file.path, unknown);
  const std::string path = unknown ? file.path : whole.lexically_normal().string();
  end.file = file.fd >= 0 ? "-" : ShownText(path);
  return end;
}

Step ClientStep(const std::string& node, bool reads_file) {
  Step step;
  step.node = node;
  step.from = reads_file ? "file" : "host";
  step.to = reads_file ? "host" : "file";
  step.by = "client";
  return step;
}

Status VerifyPart(const Receipt& receipt, const std::byte* data, uint64_t bytes) {
  if (!receipt.checksum.has_value() || receipt.checksum->algorithm != digest::kTreeAlgorithm) {
    return {
        Code::kUnimplemented, reasons::kNotServed,
        "the daemon gave no " + std::string(digest::kTreeAlgorithm) + " checksum to compare with",
        "install the same version of onecopyd and of its clients"};
  }
  const std::string here = digest::TreeHexOf(data, bytes);
  if (receipt.checksum->verified && receipt.checksum->value == here) return OkStatus();
  return {Code::kDataLoss, reasons::kChecksumMismatch,
          "the bytes arrived altered: " + std::string(digest::kTreeAlgorithm) + " is " + here +
              " here and " + receipt.checksum->value + " at the destination",
          "copy again; if it persists, look for faulty memory or another writer of the buffer"};
}

Windows::Windows(Client& client, const FileCopyOptions& options, std::unique_ptr<Waiter> waiter,
                 std::optional<uint64_t> total)
    : client_(client), options_(options), waiter_(std::move(waiter)), total_(total) {
  if (options.checksum) digest_.emplace(total.value_or(0));
}

Result<std::unique_ptr<Windows>> Windows::Open(Client& client, const FileCopyOptions& options,
                                               std::unique_ptr<Waiter> waiter, const Copy& copy,
                                               uint64_t bytes) {
  std::unique_ptr<Windows> windows(new Windows(client, options, std::move(waiter), copy.bytes));
  bytes = std::max<uint64_t>(bytes, 1);
  // No more windows than there are pieces.
  uint64_t count = std::clamp(options.windows, 1U, kMaxWindows);
  if (copy.bytes.has_value()) {
    count = std::clamp<uint64_t>((*copy.bytes + bytes - 1) / bytes, 1, count);
  }
  for (uint64_t i = 0; i < count; ++i) {
    ONECOPY_ASSIGN_OR_RETURN(HostBuffer memory,
                             client.CreateHostBuffer("", bytes, HostPages::kWhenTouched));
    windows->windows_.push_back({std::move(memory), 0, std::nullopt});
  }
  const SeriesRequest series{copy.source,    copy.destination, copy.bytes,
                             options.policy, options.checksum, windows->waiter_->Remaining(),
                             options.pacing, options.trace};
  ONECOPY_RETURN_IF_ERROR(windows->waiter_->Check());
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo opened, client.OpenSeries(series));
  windows->sum_.id = opened.id;
  return windows;
}

void Windows::Cancel() {
  std::stop_source stop;
  stop.request_stop();
  // First all, then one after the other; a failure means that the daemon has gone, and the
  // transfers of this client's memory with it.
  for (Window& window : windows_) {
    if (window.running.has_value()) static_cast<void>(client_.CancelTransfer(*window.running));
  }
  for (Window& window : windows_) {
    if (!window.running.has_value()) continue;
    static_cast<void>(client_.AwaitTransfer(*window.running, {}, stop.get_token()));
    window.running.reset();
  }
}

Status Windows::StartFrom(Window& window, const Endpoint& remote, uint64_t bytes) {
  return Start(window, window.memory.endpoint(0, bytes), remote, bytes);
}

Status Windows::StartInto(Window& window, const Endpoint& remote, uint64_t bytes) {
  return Start(window, remote, window.memory.endpoint(0, bytes), bytes);
}

Status Windows::Start(Window& window, Endpoint source, Endpoint destination, uint64_t bytes) {
  ONECOPY_RETURN_IF_ERROR(waiter_->Check());
  TransferRequest request;
  request.source = std::move(source);
  request.destination = std::move(destination);
  request.part_of = sum_.id;
  const Result<TransferInfo> started = client_.StartTransfer(request);
  // Once the whole copy was cancelled, the daemon takes no more windows, and says why.
  if (!started.ok()) return started.status().WithContext("transfer " + sum_.id.str());
  window.bytes = bytes;
  window.running = started->id;
  ++sum_.windows;
  return OkStatus();
}

Result<bool> Windows::Finish(Window& window) {
  if (!window.running.has_value()) return false;
  const auto on_update = [this](const TransferInfo& transfer) {
    if (options_.on_progress) options_.on_progress(bytes_done_ + transfer.bytes_done, total_);
  };
  auto transfer = client_.AwaitTransfer(*window.running, on_update, waiter_->stop());
  if (!transfer.ok()) return transfer.status();
  window.running.reset();
  transfer->id = sum_.id;  // the one that people know
  ONECOPY_RETURN_IF_ERROR(OutcomeOf(*transfer));
  if (digest_.has_value()) {
    ONECOPY_RETURN_IF_ERROR(VerifyPart(transfer->receipt, window.memory.data(), window.bytes));
    digest_->Add(window.memory.data(), window.bytes);
  }
  return true;
}

void Windows::Progress(uint64_t bytes_done) {
  bytes_done_ = bytes_done;
  if (options_.on_progress) options_.on_progress(bytes_done_, total_);
}

Status Windows::Fail(const Status& why) {
  Cancel();
  // Without a daemon, or where it has ended the copy itself, there is nothing to be said.
  static_cast<void>(client_.EndSeries(sum_.id, why));
  if (why.ok() || bytes_done_ == 0) return why;
  return why.WithContext("after " + std::to_string(bytes_done_) + " bytes had arrived");
}

Result<FileCopy> Windows::Complete() {
  const std::string sum = digest_.has_value() ? digest_->Take().root : "";
  ONECOPY_ASSIGN_OR_RETURN(const TransferInfo ended, client_.EndSeries(sum_.id, {}, sum));
  ONECOPY_RETURN_IF_ERROR(OutcomeOf(ended));
  sum_.bytes = bytes_done_;
  sum_.receipt = ended.receipt;
  return std::move(sum_);
}

}  // namespace onecopy::client
