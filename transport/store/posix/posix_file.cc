#include "transport/store/posix/posix_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/core/ranges/zero_runs.h"
#include "transport/os/base/error.h"

namespace onecopy::posix {
namespace {

// What this process itself has opened may have to be removed, and is then this one's to close.
void Close(Lane& lane, OpenFileRequest request) {
  if (request.open) lane.Wait([gone = std::move(request)] {});
}

bool WholeGrains(uint64_t offset, const std::byte* memory, uint64_t bytes) {
  return (offset | reinterpret_cast<uintptr_t>(memory) | bytes) % kGrain == 0;
}

}  // namespace

PosixFile::PosixFile(OpenFileRequest request, FileFacts facts, const Cut& cut, Known known,
                     std::shared_ptr<Lane> lane)
    : request_(std::move(request)),
      facts_(std::move(facts)),
      cut_(cut),
      lane_(std::move(lane)),
      direct_(facts_.direct),
      tries_(facts_.turn != nullptr),
      tries_who_(facts_.who != nullptr && lane_->has_ring()),
      direct_to_cached_(facts_.verdict.direct_to_cached.value_or(0)),
      threads_to_ring_(facts_.cached ? known.cached_reads->threads_to_ring().value_or(0) : 0),
      known_(std::move(known)),
      by_threads_(facts_.cached && known_.cached_reads->by_threads()) {
  if (tries_) trial_.emplace(request_.offset_bytes);
  if (tries_who_) trial_.emplace(request_.offset_bytes, CachedReads::kSegmentBytes);
  if (!tries_who_) facts_.who.reset();
  place_ = lane_->Register(request_.fd);
  if (direct_) direct_place_ = lane_->Register(request_.direct_fd);
}

PosixFile::~PosixFile() {
  facts_.turn.reset();
  facts_.who.reset();
  if (place_ < 0 && direct_place_ < 0) {
    Close(*lane_, std::move(request_));
    return;
  }
  // First the ring's, lest it is the ring that closes them. The loop has ended before its lane
  // does.
  lane_->loop().Post([lane = lane_.get(), place = place_, direct_place = direct_place_,
                      request = std::move(request_)]() mutable {
    lane->Unregister(place);
    lane->Unregister(direct_place);
    Close(*lane, std::move(request));
  });
}

FilePass PosixFile::PassOf(const ByteRange& range, const std::byte* memory) const {
  if (facts_.kind->in_memory) return FilePass::kMemory;
  return direct_ && !tries_ && WholeGrains(range.offset, memory, range.bytes)
             ? FilePass::kDirect
             : FilePass::kPageCache;
}

std::string PosixFile::how() const {
  std::string how = "posix: " + WhoMoved() +
                    (facts_.kind->in_memory ? ", a file in memory"
                     : direct_              ? ", O_DIRECT"
                                            : ", page cache") +
                    ", " + facts_.kind->name;
  if (const double ratio = direct_to_cached_; ratio > 0 && !facts_.kind->in_memory) {
    std::array<char, 64> words{};
    std::snprintf(words.data(), words.size(), " (past the page cache %.2f of the rate through it)",
                  ratio);
    how += words.data();
  }
  if (const double ratio = threads_to_ring_; ratio > 0) {
    std::array<char, 64> words{};
    std::snprintf(words.data(), words.size(), " (threads at %.2f of the rate of io_uring)", ratio);
    how += words.data();
  }
  if (!lane_->kept_on().empty()) {
    how += ", threads kept on processors " + lane_->kept_on() + " of NUMA node " +
           std::to_string(facts_.drive.numa_node);
  }
  if (const uint64_t bytes = in_holes_; bytes > 0) how += ", " + FormatBytes(bytes) + " as holes";
  return how + (tries_ || tries_who_ ? ", measured while it was read" : "");
}

// As it was, once something has been moved.
std::string PosixFile::WhoMoved() const {
  const uint64_t ring = tally_.by_ring;
  const uint64_t threads = tally_.by_threads;
  const uint64_t registered = tally_.in_registered;
  if (ring + threads == 0) return lane_->has_ring() ? "io_uring" : "threads";
  if (ring == 0) return "threads";
  std::string who = threads > 0 ? "io_uring and threads" : "io_uring";
  if (tally_.of_registered == ring) who += ", registered file";
  if (registered > 0) who += ", registered memory";
  if (registered > 0 && registered < ring + threads) {
    who += " for " + FormatBytes(registered) + " of " + FormatBytes(ring + threads);
  }
  return who;
}

void PosixFile::Read(uint64_t offset, Span into, Done done) {
  Move(false, offset, std::move(into), std::move(done));
}

void PosixFile::Write(uint64_t offset, Span from, Done done) {
  Move(true, offset, std::move(from), std::move(done));
}

void PosixFile::Commit(const StopFlag& stop, UniqueFunction<void(Status)> done) {
  auto shared = std::make_shared<decltype(done)>(std::move(done));
  const auto finish = [self = shared_from_this(), shared](Status status) {
    // The lane's own thread releases the last reference.
    self->lane_->loop().Post(
        [self, shared, status = std::move(status)]() mutable { (*shared)(std::move(status)); });
  };
  if (!request_.commit) return finish(OkStatus());
  const bool waits = lane_->Wait([self = shared_from_this(), finish, stop] {
    const Status length = self->SetLength();
    finish(length.ok() ? self->request_.commit(*stop) : length);
  });
  if (!waits) finish(Lane::NoThread());
}

Status PosixFile::SetLength() const {
  if (!request_.is_new || ::ftruncate(request_.fd, static_cast<off_t>(written_to_)) == 0) {
    return OkStatus();
  }
  return os::ErrnoStatus(errno, "cutting " + request_.name + " to what was written");
}

void PosixFile::Move(bool write, uint64_t offset, Span span, Done done) {
  auto piece = std::make_shared<Piece>();
  piece->write = write;
  piece->offset = offset;
  piece->span = std::move(span);
  piece->done = std::move(done);
  lane_->loop().Post([self = shared_from_this(), piece = std::move(piece)]() mutable {
    self->Begin(std::move(piece));
  });
}

void PosixFile::Begin(PieceRef piece) {
  const Span& span = piece->span;
  const bool reads = request_.use == FileUse::kRead || request_.read_back;
  if (piece->write ? request_.use == FileUse::kRead : !reads) {
    return piece->done(
        Status(Code::kPermissionDenied, reasons::kAccessDenied,
               request_.name + " is not open for " + (piece->write ? "writing" : "reading")),
        PassOf({}, nullptr));
  }
  if (span.bytes == 0) return piece->done(OkStatus(), PassOf({}, nullptr));
  if (piece->write) {
    written_to_ = std::max<uint64_t>(written_to_, piece->offset + span.bytes);
  }
  if (BeginRuns(piece)) return;
  if (!waiting_.empty() || !Admit(piece)) waiting_.push_back(std::move(piece));
}

bool PosixFile::BeginRuns(const PieceRef& whole) {
  const Span& span = whole->span;
  if (!whole->write || whole->hole || whole->offset + span.bytes > facts_.zero_until) return false;
  const std::vector<FileRun> runs = SplitAtZeros(span.address(), span.bytes, whole->offset);
  // Memory that was not there was looked at, too.
  if (Status broken = span.region->CheckIntact(); !broken.ok()) {
    whole->done(std::move(broken), PassOf({}, nullptr));
    return true;
  }
  if (runs.size() == 1 && !runs.front().zero) return false;
  struct Together {
    size_t left;
    Status failure;
    FilePass pass;
    Done done;
  };
  auto together = std::make_shared<Together>(Together{runs.size(), OkStatus(),
                                                      PassOf({whole->offset, span.bytes}, nullptr),
                                                      std::move(whole->done)});
  for (const FileRun& run : runs) {
    auto piece = std::make_shared<Piece>();
    piece->write = true;
    piece->hole = run.zero;
    piece->offset = whole->offset + run.at;
    piece->span = {span.region, span.offset + run.at, run.bytes};
    piece->done = [together, zero = run.zero](Status status, FilePass pass) {
      if (!zero) together->pass = pass;
      if (!status.ok() && together->failure.ok()) together->failure = std::move(status);
      if (--together->left == 0) together->done(std::move(together->failure), together->pass);
    };
    if (!waiting_.empty() || !Admit(piece)) waiting_.push_back(std::move(piece));
  }
  return true;
}

void PosixFile::Classify(Piece& piece) const {
  piece.direct = direct_ && WholeGrains(piece.offset, piece.span.address(), piece.span.bytes);
  if (request_.use == FileUse::kWrite) {
    piece.group = piece.direct ? 1 : 0;
  } else {
    piece.group = trial_ ? trial_->SegmentOf(piece.offset) : Trial::kSegments;
    const bool tried = piece.group < Trial::kSegments;
    if (tries_ && tried && !Trial::IsFirst(piece.group)) piece.direct = false;
    piece.by_threads = !piece.direct && piece.span.bytes >= kOwnThreadFrom &&
                       (tries_who_ && tried ? Trial::IsFirst(piece.group) : by_threads_);
  }
}

bool PosixFile::Admit(const PieceRef& piece) {
  Classify(*piece);
  if (running_ > 0 && piece->group != running_group_) return false;
  if (running_ == 0) {
    if (piece->group != running_group_) {
      EndSegment();
      Classify(*piece);
      running_group_ = piece->group;
      group_time_ = {};
      most_running_ = 0;
    }
    running_since_ = std::chrono::steady_clock::now();
  }
  most_running_ = std::max(most_running_, ++running_);
  Continue(piece);
  return true;
}

void PosixFile::EndSegment() {
  if (!trial_) return;
  // Who asks for little at a time is what would be measured.
  if (tries_who_ && most_running_ < cut_.depth / 2) {
    trial_.reset();
    facts_.who.reset();
    return;
  }
  trial_->Note(running_group_, group_time_);
  if (!trial_->over()) return;
  if (tries_who_) return EndTrialOfWho();
  const std::optional<Trial::Ratios> ratios = trial_->Compare();
  EndTrial(ratios ? std::optional(JudgeWays(*ratios, facts_.kind->direct)) : std::nullopt);
}

void PosixFile::EndTrialOfWho() {
  facts_.who->End(trial_->Compare());
  facts_.who.reset();
  trial_.reset();
  by_threads_ = known_.cached_reads->by_threads();
  threads_to_ring_ = known_.cached_reads->threads_to_ring().value_or(0);
}

void PosixFile::EndTrial(const std::optional<Verdict>& verdict) {
  trial_.reset();
  facts_.turn->End(verdict);
  facts_.turn.reset();
  direct_ = direct_ && verdict.value_or(facts_.verdict).direct;
  if (verdict) direct_to_cached_ = verdict->direct_to_cached.value_or(0);
}

void PosixFile::Continue(const PieceRef& piece) {
  const Span& span = piece->span;
  IoRequest request;
  request.write = piece->write;
  request.hole = piece->hole;
  request.direct = piece->direct;
  request.waits = piece->waits || piece->by_threads || piece->hole;
  request.fd = piece->direct ? request_.direct_fd : request_.fd;
  request.place = piece->direct ? direct_place_ : place_;
  request.offset = piece->offset + piece->moved;
  request.region = span.region.get();
  request.at = span.address() + piece->moved;
  request.bytes = span.bytes - piece->moved;
  request.tally = &tally_;
  request.ended = [self = shared_from_this(), piece](int64_t result) {
    self->Continued(piece, result);
  };
  lane_->Submit(std::move(request));
}

void PosixFile::Continued(const PieceRef& piece, int64_t result) {
  if (piece->hole) {  // where it cannot be made, its zeros keep their room
    piece->moved = piece->span.bytes;
    return End(piece, OkStatus());
  }
  if (result == -EINTR) return Continue(piece);
  if (result == -EAGAIN && piece->by_threads) {
    piece->by_threads = false;  // none can be made
    return Continue(piece);
  }
  if (result == -EAGAIN && !piece->waits) {
    // A descriptor that must not wait (O_NONBLOCK), which a ring takes at its word.
    piece->waits = true;
    return Continue(piece);
  }
  if (piece->direct && result == -EINVAL) {
    // A device with larger blocks than any that was thought of.
    direct_ = piece->direct = false;
    if (trial_ && tries_) EndTrial(Verdict{});
    return Continue(piece);
  }
  if (result < 0) return End(piece, Failure(static_cast<int>(-result), *piece));
  piece->moved += static_cast<uint64_t>(result);
  if (result > 0 && piece->moved < piece->span.bytes) {
    // What is left of one that ended inside a block is asked for again; where it ends there once
    // more, the disk or the file does.
    if (piece->direct && piece->moved % kGrain != 0) {
      const uint64_t whole = piece->moved / kGrain * kGrain;
      if (static_cast<uint64_t>(result) < kGrain) return End(piece, Short(*piece));
      piece->moved = whole;
    }
    return Continue(piece);
  }
  if (piece->moved == piece->span.bytes) return End(piece, OkStatus());
  End(piece, Short(*piece));
}

Status PosixFile::Short(const Piece& piece) const {
  if (piece.write) return Failure(EIO, piece);
  return {Code::kDataLoss, reasons::kIo,
          request_.name + " ended at byte " + std::to_string(piece.offset + piece.moved) +
              ", before byte " + std::to_string(piece.offset + piece.span.bytes) +
              ", which it had when it was opened",
          "copy it again while no other program changes it"};
}

void PosixFile::End(const PieceRef& piece, Status status) {
  // What was written directly is in no cache; where it is, it went that way.
  if (piece->hole) in_holes_ += piece->moved;
  if (piece->write && piece->direct && !piece->hole && status.ok() &&
      IsCached(request_.direct_fd, piece->offset, piece->span.bytes)) {
    direct_ = piece->direct = false;
  }
  const FilePass pass = facts_.kind->in_memory ? FilePass::kMemory
                        : piece->direct        ? FilePass::kDirect
                                               : FilePass::kPageCache;
  if (--running_ == 0) group_time_ += std::chrono::steady_clock::now() - running_since_;
  piece->done(std::move(status), pass);
  // Those that waited, in order, as long as they go together.
  while (!waiting_.empty() && Admit(waiting_.front())) waiting_.pop_front();
}

Status PosixFile::Failure(int error, const Piece& piece) const {
  if (error == EFAULT) {
    return {Code::kAborted, reasons::kMemoryFault,
            "a page of " + piece.span.region->step_name() +
                " memory is missing; a file was to be " +
                (piece.write ? "written from it" : "read into it"),
            "its client took it away: remove the buffer and register memory again"};
  }
  const std::string what = (piece.write ? "writing " : "reading ") + request_.name;
  const bool full = error == ENOSPC || error == EDQUOT;
  return os::ErrnoStatus(error, what, full ? "free some space, or write elsewhere" : "");
}

}  // namespace onecopy::posix
