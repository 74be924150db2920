#include "transport/store/cufile/cufile_file.h"

#include <cerrno>
#include <future>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/store/cufile/failure.h"

namespace onecopy::cufile {

CufileFile::CufileFile(OpenFileRequest request, uint64_t bytes, shim::cufile::Handle handle,
                       std::shared_ptr<const Driver> driver, std::shared_ptr<Lane> lane)
    : request_(std::move(request)),
      bytes_(bytes),
      handle_(handle),
      driver_(std::move(driver)),
      lane_(std::move(lane)) {}

CufileFile::~CufileFile() {
  // The descriptor stays open until the library has let go of it.
  lane_->Wait([api = driver_->api, handle = handle_, keeps = request_.keeps] {
    api->DeregisterHandle(handle);
  });
}

std::string CufileFile::how() const {
  std::string text = driver_->name + ": " + std::to_string(direct_pieces_) + " pieces directly";
  if (bounced()) {
    text += ", " + std::to_string(bounced_pieces_) + " through memory of the library's own";
  }
  return text;
}

Result<std::shared_ptr<void>> CufileFile::Attach(const RegionRef& memory) {
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<const Registration> registration,
                           driver_->registrations->Attach(*memory));
  const std::optional<shim::CuFileCounts> now = driver_->counts->Read(registration->device());
  if (!now) return NotSeen("nothing counts what libcufile does with GPU " + registration->device());
  const MutexLock lock(mutex_);
  std::erase_if(attached_, [](const auto& entry) { return entry.second.expired(); });
  attached_[memory.get()] = registration;
  before_.try_emplace(registration->device(), *now);
  return std::shared_ptr<void>(std::const_pointer_cast<Registration>(registration));
}

std::shared_ptr<const Registration> CufileFile::Find(const Region& memory) {
  const MutexLock lock(mutex_);
  const auto found = attached_.find(&memory);
  return found == attached_.end() ? nullptr : found->second.lock();
}

Status CufileFile::NotSeen(const std::string& why) const {
  return {Code::kFailedPrecondition, reasons::kCompatibilityMode,
          request_.name + " did not go directly between drive and GPU: " + why,
          "see onecopy doctor, and gdscheck -p"};
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
          "what goes directly between " + request_.name + " and a GPU is whole blocks of " +
              std::to_string(kGrain) + " bytes at whole blocks of memory"};
}

void CufileFile::Move(bool write, uint64_t offset, Span span, Done done) {
  auto shared = std::make_shared<Done>(std::move(done));
  auto end = [self = shared_from_this(), shared](Moved moved, Span span) {
    // All of it goes there: what it keeps is let go by the loop's thread.
    os::EventLoop& loop = self->lane_->loop();
    loop.Post([self, shared, moved = std::move(moved), span = std::move(span)]() mutable {
      (*shared)(std::move(moved.status), moved.pass);
    });
  };
  Status wrong = Check(write, offset, span);
  if (!wrong.ok() || span.bytes == 0) return end({std::move(wrong)}, std::move(span));
  const bool posted = lane_->Wait([self = shared_from_this(), write, offset, span, end]() mutable {
    Moved moved = self->MoveNow(write, offset, span);
    end(std::move(moved), std::move(span));
  });
  if (posted) return;
  end({Status(Code::kResourceExhausted, reasons::kNoMemory,
              "this process may have no more threads to wait for files",
              "raise its limit on threads (TasksMax, ulimit -u)")},
      std::move(span));
}

Status CufileFile::MoveAll(bool write, uint64_t offset, const Span& span, uint64_t* operations) {
  const std::shared_ptr<const Registration> memory = Find(*span.region);
  const std::string what = (write ? "writing " : "reading ") + request_.name;
  if (memory == nullptr) {
    return {Code::kInternal, reasons::kInternal, what + ": the GPU's memory is not attached"};
  }
  for (uint64_t moved = 0; moved < span.bytes;) {
    errno = 0;
    const ssize_t got =
        memory->Move(write, handle_, offset + moved, span.offset + moved, span.bytes - moved);
    const int native = errno;
    ++*operations;
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
            "copy it when nothing else changes it"};
  }
  return OkStatus();
}

CufileFile::Moved CufileFile::MoveNow(bool write, uint64_t offset, const Span& span) {
  uint64_t operations = 0;
  Moved moved{MoveAll(write, offset, span, &operations)};
  if (!moved.status.ok()) return moved;
  const MutexLock lock(mutex_);
  moved.pass = PassTaken(span.region->place().device);
  ++(moved.pass == FilePass::kDirect ? direct_pieces_ : bounced_pieces_);
  return moved;
}

// Of all pieces so far: where any went another way, which of them it was is not told, and this may
// be it.
FilePass CufileFile::PassTaken(const std::string& device) {
  const std::optional<shim::CuFileCounts> now = driver_->counts->Read(device);
  const auto before = before_.find(device);
  if (!now || before == before_.end()) return FilePass::kHostBounce;
  if (now->posix > before->second.posix) return FilePass::kHostBounce;
  if (now->bounced > before->second.bounced) return FilePass::kGpuBounce;
  const bool counted = now->direct - before->second.direct > direct_pieces_;
  return counted ? FilePass::kDirect : FilePass::kHostBounce;
}

Result<std::string> CufileFile::Prove(bool write, uint64_t offset, const Span& span) {
  ONECOPY_RETURN_IF_ERROR(Check(write, offset, span));
  const std::string& device = span.region->place().device;
  const std::optional<shim::CuFileCounts> before = driver_->counts->Read(device);
  if (!before) return NotSeen("nothing counts what libcufile does with GPU " + device);
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
                  "this process may have no more threads to wait for files");
  }
  const auto [status, operations] = outcome.get();
  ONECOPY_RETURN_IF_ERROR(status);
  const std::optional<shim::CuFileCounts> after = driver_->counts->Read(device);
  if (!after) return NotSeen("nothing counts what libcufile does with GPU " + device);
  const std::string why = WhyNotDirect(*before, *after, operations);
  if (!why.empty()) return NotSeen(why);
  // What the pieces are held against begins behind what has been seen.
  const MutexLock lock(mutex_);
  before_[device] = *after;
  return driver_->name + " counted " + std::to_string(after->direct - before->direct) +
         " direct operations for the first " + FormatBytes(span.bytes) +
         ", and none by host memory";
}

}  // namespace onecopy::cufile
