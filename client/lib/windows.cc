#include "client/lib/windows.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "transport/core/merge_receipts.h"
#include "transport/core/reasons.h"

namespace onecopy::client {
namespace {

constexpr size_t kMostIds = 1000;
// A daemon keeps the end of so many windows until they are asked for, and of more.
constexpr unsigned kMostWindows = 64;

}  // namespace

Policy WindowPolicy(const Policy& policy) {
  Policy window = policy;
  if (window.at_most_copies.value_or(0) > 0) --*window.at_most_copies;
  return window;
}

void SetPolicy(const Client& client, const Policy& policy, TransferRequest& window) {
  window.client_file = client.HasSeries();
  window.policy = window.client_file ? policy : WindowPolicy(policy);
}

Endpoint FileEnd(const Client& client, const LocalFile& file) {
  Endpoint end;
  end.node = client.node();
  end.offset_bytes = file.offset_bytes;
  end.bytes = file.bytes;
  std::error_code unknown;
  const std::filesystem::path whole = std::filesystem::absolute(file.path, unknown);
  end.file = file.fd >= 0 ? "-" : unknown ? file.path : whole.lexically_normal().string();
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

Status ExplainPolicy(const Status& status, const Policy& policy) {
  if (status.reason() != reasons::kPolicyUnmet || !policy.at_most_copies.has_value()) return status;
  return status.WithContext("of at most " + std::to_string(*policy.at_most_copies) +
                            " copies, one is this process's own between file and memory");
}

Status VerifyPart(const Receipt& receipt, const std::byte* data, uint64_t bytes) {
  if (!receipt.checksum.has_value() || receipt.checksum->algorithm != kDigestAlgorithm) {
    return {Code::kUnimplemented, reasons::kNotServed,
            "the daemon gave no " + std::string(kDigestAlgorithm) + " checksum to compare with",
            "install the same version of onecopyd and of its clients"};
  }
  const std::string here = DigestOf(data, bytes);
  if (receipt.checksum->verified && receipt.checksum->value == here) return OkStatus();
  return {Code::kDataLoss, reasons::kChecksumMismatch,
          "the bytes arrived altered: " + std::string(kDigestAlgorithm) + " is " + here +
              " here and " + receipt.checksum->value + " at the destination",
          "copy again; if it persists, look for faulty memory or another writer of the buffer"};
}

Windows::Windows(Client& client, const FileCopyOptions& options, std::unique_ptr<Waiter> waiter,
                 std::optional<uint64_t> total)
    : client_(client), options_(options), waiter_(std::move(waiter)), total_(total) {
  if (options.checksum) digest_.emplace();
}

Result<std::unique_ptr<Windows>> Windows::Open(Client& client, const FileCopyOptions& options,
                                               std::unique_ptr<Waiter> waiter, const Copy& copy,
                                               uint64_t bytes) {
  std::unique_ptr<Windows> windows(new Windows(client, options, std::move(waiter), copy.bytes));
  bytes = std::max<uint64_t>(bytes, 1);
  // No more windows than there are pieces.
  uint64_t count = std::clamp(options.windows, 1U, kMostWindows);
  if (copy.bytes.has_value()) {
    count = std::clamp<uint64_t>((*copy.bytes + bytes - 1) / bytes, 1, count);
  }
  for (uint64_t i = 0; i < count; ++i) {
    ONECOPY_ASSIGN_OR_RETURN(HostBuffer memory, client.CreateHostBuffer("", bytes));
    windows->windows_.push_back({std::move(memory), 0, std::nullopt});
  }
  if (client.HasSeries()) {
    SeriesRequest series{copy.source,    copy.destination, copy.bytes,
                         options.policy, options.checksum, windows->waiter_->Remaining()};
    ONECOPY_RETURN_IF_ERROR(windows->waiter_->Check());
    ONECOPY_ASSIGN_OR_RETURN(const TransferInfo opened, client.OpenSeries(series));
    windows->sum_.id = opened.id;
  }
  windows->begin_ = Waiter::Clock::now();
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
  if (!IsSeries()) {
    request.policy = WindowPolicy(options_.policy);
    request.checksum = options_.checksum;
    request.deadline = waiter_->Remaining();
  }
  auto transfer = client_.StartTransfer(request);
  if (!transfer.ok()) {
    return IsSeries() ? transfer.status() : ExplainPolicy(transfer.status(), options_.policy);
  }
  window.bytes = bytes;
  window.running = transfer->id;
  ++sum_.windows;
  if (IsSeries()) return OkStatus();
  sum_.transfers.push_back(transfer->id);
  if (sum_.transfers.size() > kMostIds) sum_.transfers.erase(sum_.transfers.begin());
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
  if (IsSeries()) transfer->id = sum_.id;  // the one that people know
  ONECOPY_RETURN_IF_ERROR(OutcomeOf(*transfer));
  if (digest_.has_value()) {
    ONECOPY_RETURN_IF_ERROR(VerifyPart(transfer->receipt, window.memory.data(), window.bytes));
    digest_->Add(window.memory.data(), window.bytes);
  }
  if (!IsSeries()) MergeReceipt(transfer->receipt, sum_.receipt);
  return true;
}

void Windows::Progress(uint64_t bytes_done) {
  bytes_done_ = bytes_done;
  if (options_.on_progress) options_.on_progress(bytes_done_, total_);
}

Status Windows::Fail(const Status& why) {
  Cancel();
  // Without a daemon, or where it has ended the copy itself, there is nothing to be said.
  if (IsSeries()) static_cast<void>(client_.EndSeries(sum_.id, why));
  if (why.ok() || bytes_done_ == 0) return why;
  return why.WithContext("after " + std::to_string(bytes_done_) + " bytes had arrived");
}

Result<FileCopy> Windows::Complete(bool client_step_first) {
  sum_.bytes = bytes_done_;
  if (IsSeries()) {
    const std::string sum = digest_.has_value() ? digest_->Hex() : "";
    ONECOPY_ASSIGN_OR_RETURN(const TransferInfo ended, client_.EndSeries(sum_.id, {}, sum));
    ONECOPY_RETURN_IF_ERROR(OutcomeOf(ended));
    sum_.receipt = ended.receipt;
    return std::move(sum_);
  }
  Receipt& receipt = sum_.receipt;
  receipt.seconds = std::chrono::duration<double>(Waiter::Clock::now() - begin_).count();
  receipt.bytes_per_second =
      receipt.seconds > 0 ? static_cast<double>(bytes_done_) / receipt.seconds : 0;
  if (digest_.has_value()) {
    // Every window was verified, and the whole is their sequence.
    receipt.checksum = ChecksumResult{kDigestAlgorithm, digest_->Hex(), true};
  }
  if (bytes_done_ > 0) {
    const ExecutedStep own = {ClientStep(client_.node(), client_step_first), bytes_done_};
    receipt.steps.insert(client_step_first ? receipt.steps.begin() : receipt.steps.end(), own);
  }
  return std::move(sum_);
}

}  // namespace onecopy::client
