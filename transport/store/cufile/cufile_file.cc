#include "transport/store/cufile/cufile_file.h"

#include <cerrno>
#include <future>
#include <tuple>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/store/cufile/failure.h"

namespace onecopy::cufile {
namespace {

constexpr ssize_t kFirstCode = 5000;  // of the library's own

// Until this process ends.
void KeepForGood(std::shared_ptr<const Registration> memory, RegionRef region,
                 std::shared_ptr<const void> file) {
  static Mutex mutex;
  using Kept =
      std::tuple<std::shared_ptr<const Registration>, RegionRef, std::shared_ptr<const void>>;
  static auto* const all = new std::vector<Kept>;
  const MutexLock lock(mutex);
  all->emplace_back(std::move(memory), std::move(region), std::move(file));
}

}  // namespace

CufileFile::CufileFile(OpenFileRequest request, uint64_t bytes, shim::cufile::Handle handle,
                       DriveTrouble drive, std::shared_ptr<const Driver> driver,
                       std::shared_ptr<Lane> lane)
    : request_(std::move(request)),
      bytes_(bytes),
      handle_(handle),
      drive_(std::move(drive)),
      driver_(std::move(driver)),
      lane_(std::move(lane)) {}

CufileFile::~CufileFile() {
  for (const auto& [gpu, joined] : joined_) driver_->ledger->Leave(gpu);
  // The descriptor stays open until the library has released it.
  lane_->Wait([api = driver_->api, handle = handle_, keeps = request_.keeps] {
    api->DeregisterHandle(handle);
  });
}

std::string CufileFile::how() const {
  std::string text = driver_->name + ": " + std::to_string(direct_pieces_) + " pieces directly";
  if (bounced()) {
    text += ", " + std::to_string(bounced_pieces_) + " through the library's own memory";
  }
  if (batches_ > 0) {
    text += "; " + std::to_string(batched_pieces_) + " of them by " + std::to_string(batches_) +
            " batches";
  }
  if (const std::string broken = lane_->batches().broken(); !broken.empty()) {
    text += "; no more batches, since " + broken;
  }
  const MutexLock lock(mutex_);
  for (const auto& [gpu, joined] : joined_) {
    const uint64_t others = driver_->ledger->Others(gpu, joined.company);
    if (others == 0) continue;
    text += "; the counters of GPU " + gpu + " are also those of " + std::to_string(others) +
            " other transfer" + (others == 1 ? "" : "s") + " meanwhile";
  }
  return text;
}

Result<std::shared_ptr<void>> CufileFile::Attach(const RegionRef& memory) {
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<const Registration> registration,
                           driver_->registrations->Attach(*memory));
  const std::string& gpu = registration->device();
  const std::optional<Ledger::Window> now = driver_->ledger->Open(gpu);
  if (!now) return NotSeen("there is no counter of libcufile's operations with GPU " + gpu);
  const MutexLock lock(mutex_);
  std::erase_if(attached_, [](const auto& entry) { return entry.second.expired(); });
  attached_[memory.get()] = registration;
  if (!joined_.contains(gpu)) joined_[gpu] = {driver_->ledger->Join(gpu), *now};
  return std::shared_ptr<void>(std::const_pointer_cast<Registration>(registration));
}

std::shared_ptr<const Registration> CufileFile::Find(const Region& memory) {
  const MutexLock lock(mutex_);
  const auto found = attached_.find(&memory);
  return found == attached_.end() ? nullptr : found->second.lock();
}

Status CufileFile::NotSeen(const std::string& why) const {
  return drive_.Explain({Code::kFailedPrecondition, reasons::kCompatibilityMode,
                         request_.name + " did not go directly between drive and GPU: " + why,
                         "see onecopy doctor, and gdscheck -p"});
}

Status CufileFile::Check(bool write, uint64_t offset, const Span& span) const {
  const bool reads = request_.use == FileUse::kRead || request_.read_back;
  if (write ? request_.use == FileUse::kRead : !reads) {
    return {Code::kPermissionDenied, reasons::kAccessDenied,
            request_.name + " is not open for " + (write ? "writing" : "reading")};
  }
  const auto address = reinterpret_cast<uintptr_t>(span.address());
  if ((offset | address | span.bytes) % kGrain == 0) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadArgument,
          "direct transfers between " + request_.name + " and a GPU must be whole blocks of " +
              std::to_string(kGrain) + " bytes, in the file and in memory"};
}

Status CufileFile::Stopped() const {
  return {Code::kCancelled, reasons::kCancelled, "the transfer of " + request_.name + " was ended"};
}

void CufileFile::End(Status status, FilePass pass, Piece piece) {
  lane_->loop().Post([self = shared_from_this(), status = std::move(status), pass,
                      piece = std::move(piece)]() mutable { piece.done(std::move(status), pass); });
}

void CufileFile::Wait(UniqueFunction<void(Pieces)> task, Pieces pieces) {
  auto shared = std::make_shared<Pieces>(std::move(pieces));
  if (lane_->Wait([task = std::move(task), shared]() mutable { task(std::move(*shared)); })) return;
  for (Piece& piece : *shared) {
    End({Code::kResourceExhausted, reasons::kNoMemory,
         "this process cannot start more threads to wait for files",
         "raise its limit on threads (TasksMax, ulimit -u)"},
        FilePass::kDirect, std::move(piece));
  }
}

void CufileFile::Move(bool write, uint64_t offset, Span span, Done done) {
  Pieces one;
  one.push_back({offset, std::move(span), std::move(done)});
  MoveMany(write, std::move(one));
}

void CufileFile::MoveMany(bool write, std::vector<Piece> pieces) {
  const size_t most = lane_->batches().entries();
  Pieces small;
  for (Piece& piece : pieces) {
    Status wrong = Check(write, piece.offset, piece.span);
    if (!wrong.ok() || piece.span.bytes == 0) {
      End(std::move(wrong), FilePass::kDirect, std::move(piece));
      continue;
    }
    const auto memory = Find(*piece.span.region);
    const bool alike = small.empty() || small.front().span.region == piece.span.region;
    const bool batched = most > 0 && alike && piece.span.bytes <= kMostInBatch &&
                         pieces.size() > 1 && memory != nullptr && !memory->windowed();
    Pieces one;
    Pieces& to = batched ? small : one;
    to.push_back(std::move(piece));
    if (batched && small.size() < most) continue;
    Wait([self = shared_from_this(),
          write](Pieces some) { self->MoveBatch(write, std::move(some)); },
         std::exchange(to, {}));
  }
  if (small.empty()) return;
  Wait([self = shared_from_this(), write](Pieces some) { self->MoveBatch(write, std::move(some)); },
       std::move(small));
}

void CufileFile::MoveBatch(bool write, Pieces pieces) {
  std::shared_ptr<const Registration> memory = Find(*pieces.front().span.region);
  std::vector<BatchEnd> ends(pieces.size());
  const std::string device = pieces.front().span.region->place().device;
  if (pieces.size() > 1 && memory != nullptr && !stopped_) {
    std::vector<BatchPiece> asked;
    for (const Piece& piece : pieces) {
      asked.push_back({piece.offset, piece.span.offset, piece.span.bytes});
    }
    driver_->ledger->Begin(device, asked.size());
    ends = memory->MoveBatch(lane_->batches(), write, handle_, asked, stopped_);
    uint64_t moved = 0;
    for (const BatchEnd& end : ends) {
      if (end.how == BatchEnd::How::kMoved && end.result > 0) ++moved;
    }
    driver_->ledger->End(device, asked.size(), moved);
    if (moved > 0) {
      ++batches_;
      batched_pieces_ += moved;
    }
  }
  std::vector<Status> ended;
  uint64_t well = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    ended.push_back(EndOfBatched(write, ends[i], pieces[i]));
    if (ended.back().ok()) ++well;
    // Memory that the library does not release stays where it is, even if others need it.
    if (ends[i].how == BatchEnd::How::kLost) {
      pieces[i].span.region->Distrust();
      KeepForGood(memory, pieces[i].span.region, shared_from_this());
    }
  }
  const FilePass pass = well == 0 ? FilePass::kDirect : PassTaken(device, well);
  // The memory may go as soon as the last has ended, and must not be registered any more then.
  memory.reset();
  for (size_t i = 0; i < pieces.size(); ++i) End(std::move(ended[i]), pass, std::move(pieces[i]));
}

// What a batch has left of a piece is moved by calls of its own.
Status CufileFile::EndOfBatched(bool write, const BatchEnd& end, const Piece& piece) {
  using How = BatchEnd::How;
  const std::string what = (write ? "writing " : "reading ") + request_.name;
  uint64_t moved = 0;
  switch (end.how) {
    case How::kLost:
      return {Code::kInternal, reasons::kDriverFailed,
              what + ": libcufile no longer reports the state of its batch",
              "set batch = 0 under [cufile] and restart onecopyd; the memory is kept until then"};
    case How::kCancelled:
      if (stopped_) return Stopped();
      break;
    case How::kFailed:
      // Of errno, or the library's own code.
      if (end.result > -kFirstCode) return IoFailure(what, -1, static_cast<int>(-end.result));
      return IoFailure(what, end.result, 0);
    case How::kMoved:
      moved = static_cast<uint64_t>(end.result);
      if (moved >= piece.span.bytes) return OkStatus();
      moved = moved / kGrain * kGrain;
      break;
    case How::kNotTaken:
      break;
  }
  uint64_t operations = 0;
  const Span rest{piece.span.region, piece.span.offset + moved, piece.span.bytes - moved};
  return MoveAll(write, piece.offset + moved, rest, &operations);
}

Status CufileFile::MoveAll(bool write, uint64_t offset, const Span& span, uint64_t* operations) {
  const std::shared_ptr<const Registration> memory = Find(*span.region);
  const std::string what = (write ? "writing " : "reading ") + request_.name;
  if (memory == nullptr) {
    return {Code::kInternal, reasons::kInternal, what + ": the GPU's memory is not attached"};
  }
  const std::string& device = memory->device();
  for (uint64_t moved = 0; moved < span.bytes;) {
    if (stopped_) return Stopped();
    driver_->ledger->Begin(device, 1);
    errno = 0;
    const ssize_t got =
        memory->Move(write, handle_, offset + moved, span.offset + moved, span.bytes - moved);
    const int native = errno;
    driver_->ledger->End(device, 1, got > 0 ? 1 : 0);
    if (got > 0) ++*operations;
    if (got == -1 && native == EINTR) continue;
    if (got < 0) return IoFailure(what, got, native);
    const auto bytes = static_cast<uint64_t>(got);
    moved += bytes;
    // What is left of one that ended inside a block is asked for again; where it ends there once
    // more, the drive or the file does.
    const uint64_t whole = moved / kGrain * kGrain;
    if (moved == span.bytes) return OkStatus();
    if (bytes >= kGrain) {
      moved = whole;
      continue;
    }
    if (write) return IoFailure(what, -1, EIO);
    return {Code::kDataLoss, reasons::kIo,
            request_.name + " ended at byte " + std::to_string(offset + moved) + ", before byte " +
                std::to_string(offset + span.bytes) + ", which it had when it was opened",
            "copy it again while no other program changes it"};
  }
  return OkStatus();
}

// Of all operations so far: where any went another way, which of them it was is not told, and this
// may be it.
FilePass CufileFile::PassTaken(const std::string& device, uint64_t pieces) {
  Ledger::Window window;
  {
    const MutexLock lock(mutex_);
    const auto joined = joined_.find(device);
    if (joined == joined_.end()) return FilePass::kHostBounce;
    window = joined->second.window;
  }
  const Ledger::Seen seen = driver_->ledger->Look(device, window);
  (seen.direct ? direct_pieces_ : bounced_pieces_) += pieces;
  if (seen.direct) return FilePass::kDirect;
  return seen.through_gpu ? FilePass::kGpuBounce : FilePass::kHostBounce;
}

Result<std::string> CufileFile::Prove(bool write, uint64_t offset, const Span& span) {
  ONECOPY_RETURN_IF_ERROR(Check(write, offset, span));
  const std::string& device = span.region->place().device;
  const std::optional<Ledger::Window> before = driver_->ledger->Open(device);
  if (!before) return NotSeen("there is no counter of libcufile's operations with GPU " + device);
  auto ended = std::make_shared<std::promise<std::pair<Status, uint64_t>>>();
  std::future<std::pair<Status, uint64_t>> outcome = ended->get_future();
  // By a thread of the lane's, as the user.
  const bool posted = lane_->Wait([self = shared_from_this(), write, offset, span, ended] {
    uint64_t operations = 0;
    Status status = self->MoveAll(write, offset, span, &operations);
    ended->set_value({std::move(status), operations});
  });
  if (!posted) {
    return Status(Code::kResourceExhausted, reasons::kNoMemory,
                  "this process cannot start more threads to wait for files");
  }
  const auto [status, operations] = outcome.get();
  ONECOPY_RETURN_IF_ERROR(status);
  const Ledger::Seen seen = driver_->ledger->Look(device, *before);
  if (!seen.direct) return NotSeen(seen.why_not);
  if (seen.counted < operations) {
    return NotSeen(std::to_string(operations) + " operations were asked for, and " +
                   std::to_string(seen.counted) + " counted as direct");
  }
  // What the pieces are held against begins behind what has been seen.
  const std::optional<Ledger::Window> after = driver_->ledger->Open(device);
  const MutexLock lock(mutex_);
  if (after) joined_[device].window = *after;
  return driver_->name + " counted " + std::to_string(seen.counted) +
         " direct operations for the first " + FormatBytes(span.bytes) +
         ", and none by host memory";
}

}  // namespace onecopy::cufile
