// One file into several buffers.
#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "client/lib/calls/call_limit.h"
#include "client/lib/calls/waiter.h"
#include "client/lib/files/input_file.h"
#include "client/lib/files/resumed_copy.h"
#include "client/lib/memory/remote_range.h"
#include "onecopy/async.h"
#include "onecopy/file_copy.h"
#include "onecopy/reasons.h"

namespace onecopy {
namespace {

using client::InputFile;
using client::RemoteRange;
using client::Waiter;
using Clock = std::chrono::steady_clock;

// Long enough that a transfer's beginning and end do not count, short enough that the last piece,
// whose copies onwards wait for it alone, is little of a file that is worth this.
constexpr uint64_t kPieceBytes = uint64_t{64} << 20;
// Pieces whose copies onwards may be under way while the next is read.
constexpr size_t kPiecesOnwards = 2;

Status Refuse(const std::string& what, const std::string& remedy) {
  return {Code::kInvalidArgument, reasons::kBadArgument, what, remedy};
}

bool Overlaps(const RemoteRange& a, const RemoteRange& b) {
  return a.buffer.node == b.buffer.node && a.buffer.id == b.buffer.id &&
         Overlap({a.offset, a.bytes}, {b.offset, b.bytes});
}

Result<std::vector<RemoteRange>> FindAll(Client& client, const std::vector<Endpoint>& ends,
                                         const InputFile& input, const Waiter& waiter) {
  if (ends.empty()) return Refuse("no destination was named", "name at least one");
  std::vector<RemoteRange> found;
  for (const Endpoint& end : ends) {
    ONECOPY_ASSIGN_OR_RETURN(RemoteRange range, client::FindRange(client, end, &waiter));
    const std::string name = range.buffer.node + ":" + range.buffer.name;
    if (*input.bytes() > range.bytes) {
      return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                    input.name() + " has " + std::to_string(*input.bytes()) + " bytes, and " +
                        name + " room for " + std::to_string(range.bytes),
                    "make a larger buffer, or give a range of the file: FILE@OFFSET+LENGTH");
    }
    range.bytes = *input.bytes();
    for (const RemoteRange& other : found) {
      if (Overlaps(range, other)) {
        return Refuse(name + " is named twice as a destination for the same bytes",
                      "name each destination once");
      }
    }
    found.push_back(std::move(range));
  }
  return found;
}

class Several {
 public:
  Several(Client& client, const FileCopyOptions& options, const Waiter& waiter,
          std::vector<RemoteRange> ends)
      : client_(client), options_(options), waiter_(waiter), ends_(std::move(ends)) {
    const auto here = std::find_if(ends_.begin(), ends_.end(), [&](const RemoteRange& end) {
      return end.buffer.node == client.node();
    });
    first_ = here == ends_.end() ? 0 : static_cast<size_t>(here - ends_.begin());
    copies_.resize(ends_.size());
  }
  // What is still under way is cancelled, and waited for.
  ~Several() {
    for (const Onwards& each : onwards_) each.transfer.Cancel();
    for (const Onwards& each : onwards_) static_cast<void>(each.transfer.Get());
  }

  Result<std::vector<FileCopy>> Run(const LocalFile& source, const InputFile& input) {
    const Clock::time_point begun = Clock::now();
    const uint64_t total = *input.bytes();
    for (uint64_t at = 0; at == 0 || at < total; at += kPieceBytes) {
      const uint64_t bytes = std::min(kPieceBytes, total - at);
      ONECOPY_RETURN_IF_ERROR(Read(source, input, at, bytes));
      ONECOPY_RETURN_IF_ERROR(Await(kPiecesOnwards * (ends_.size() - 1)));
      ONECOPY_RETURN_IF_ERROR(StartOnwards(at, bytes));
      if (options_.on_progress) options_.on_progress(at + bytes, total);
    }
    ONECOPY_RETURN_IF_ERROR(Await(0));
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    for (size_t i = 0; i < copies_.size(); ++i) {
      Receipt& receipt = copies_[i].receipt;
      // They overlap, and none ends long before the last.
      receipt.seconds = receipt.asked_seconds = seconds;
      receipt.bytes_per_second = seconds > 0 ? static_cast<double>(total) / seconds : 0;
      if (i != first_) receipt.evidence["copied_from"] = NameOf(ends_[first_]);
    }
    return std::move(copies_);
  }

 private:
  struct Onwards {
    size_t end = 0;
    TransferFuture transfer;
  };

  static std::string NameOf(const RemoteRange& end) {
    return end.buffer.node + ":" + end.buffer.name;
  }

  // A piece of the file, into the first buffer.
  Status Read(const LocalFile& source, const InputFile& input, uint64_t at, uint64_t bytes) {
    FileCopyOptions options = options_;
    options.on_progress = {};
    options.deadline = waiter_.Remaining();
    LocalFile piece = {source.path, input.fd(), input.at() + at, bytes};
    ONECOPY_ASSIGN_OR_RETURN(
        FileCopy copied, CopyFileToBuffer(client_, piece, ends_[first_].Piece(at, bytes), options));
    FileCopy& whole = copies_[first_];
    if (at == 0) whole.id = copied.id;
    whole.windows += copied.windows;
    Add(copied.bytes, copied.receipt, whole);
    return OkStatus();
  }

  Status StartOnwards(uint64_t at, uint64_t bytes) {
    for (size_t i = 0; i < ends_.size(); ++i) {
      if (i == first_) continue;
      ONECOPY_RETURN_IF_ERROR(waiter_.Check());
      TransferRequest request;
      request.source = ends_[first_].Piece(at, bytes);
      request.destination = ends_[i].Piece(at, bytes);
      request.policy = options_.policy;
      request.pacing = options_.pacing;
      request.trace = options_.trace;
      request.checksum = options_.checksum;
      request.deadline = waiter_.Remaining();
      ONECOPY_ASSIGN_OR_RETURN(TransferFuture started, client_.RunTransferAsync(request));
      onwards_.push_back({i, std::move(started)});
    }
    return OkStatus();
  }

  // Until no more than so many are under way.
  Status Await(size_t most) {
    constexpr std::chrono::milliseconds kLook(50);  // at a stop
    while (onwards_.size() > most) {
      const Onwards& oldest = onwards_.front();
      while (!oldest.transfer.WaitFor(kLook)) ONECOPY_RETURN_IF_ERROR(waiter_.Check());
      const Result<TransferInfo> ended = oldest.transfer.Get();
      const size_t end = oldest.end;
      onwards_.pop_front();
      const Status outcome = ended.ok() ? OutcomeOf(*ended) : ended.status();
      if (!outcome.ok()) {
        return outcome.WithContext("onwards to " + NameOf(ends_[end]) + ", after " +
                                   std::to_string(copies_[end].bytes) + " bytes had arrived there");
      }
      if (copies_[end].id.empty()) copies_[end].id = ended->id;
      Add(ended->bytes, ended->receipt, copies_[end]);
    }
    return OkStatus();
  }

  static void Add(uint64_t bytes, const Receipt& part, FileCopy& whole) {
    whole.bytes += bytes;
    MergeReceipt(part, whole.receipt);
    if (!part.checksum) return;
    if (!whole.receipt.checksum) {
      whole.receipt.checksum = part.checksum;
      return;
    }
    ChecksumResult& sum = *whole.receipt.checksum;
    sum.algorithm = part.checksum->algorithm + " of each 64 MiB";
    sum.value += part.checksum->value;
    sum.verified = sum.verified && part.checksum->verified;
  }

  Client& client_;
  const FileCopyOptions& options_;
  const Waiter& waiter_;
  const std::vector<RemoteRange> ends_;
  size_t first_ = 0;  // which gets the file
  std::vector<FileCopy> copies_;
  std::deque<Onwards> onwards_;
};

}  // namespace

Result<std::vector<FileCopy>> CopyFileToEach(Client& client, const LocalFile& source,
                                             const std::vector<Endpoint>& destinations,
                                             const FileCopyOptions& options) {
  ONECOPY_RETURN_IF_ERROR(client::RefuseResume(options, "buffers"));
  if (!options.ranges.empty()) {
    return Refuse("ranges go to one buffer at a time", "run one copy for each buffer");
  }
  if (!options.policy.path_glob.empty() || !options.policy.link.empty()) {
    return Refuse("the copy from the file and the copies onwards take different paths and links",
                  "leave out --path and --link, or run one copy for each buffer");
  }
  const client::CallLimit limit(client::CallLimit::For(options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(const auto waiter, Waiter::Make(options.stop, options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(const InputFile input, InputFile::Open(source));
  if (!input.bytes() || input.fd() < 0) {
    return Refuse(input.name() + " is a stream, and a stream can be copied to only one buffer",
                  "copy it to one buffer, and from there to the others");
  }
  ONECOPY_ASSIGN_OR_RETURN(std::vector<RemoteRange> ends,
                           FindAll(client, destinations, input, *waiter));
  return Several(client, options, *waiter, std::move(ends)).Run(source, input);
}

}  // namespace onecopy
