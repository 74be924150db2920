#include "transport/memory/host/promises.h"

#include <sys/stat.h>

#include <algorithm>

#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::host {
namespace {

// For the daemon itself: its heap, and what sockets take.
constexpr uint64_t kKeptBack = uint64_t{32} << 20;
// A file that loses one page after the other is not counted again for each.
constexpr uint64_t kSlack = uint64_t{16} << 20;

}  // namespace

uint64_t Promise::MissingBytes(int fd, uint64_t bytes) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return bytes;
  const auto size = static_cast<uint64_t>(facts.st_size);
  const uint64_t given = static_cast<uint64_t>(facts.st_blocks) * 512;
  return std::min(bytes, size - std::min(size, given));
}

Promise::Promise(std::shared_ptr<Promises> all, int fd, uint64_t bytes)
    : all_(std::move(all)), fd_(fd), bytes_(bytes) {}

Promise::~Promise() { all_->Remove(*this); }

Status Promise::Renew() {
  const uint64_t missing = all_->missing_(fd_, bytes_);
  if (missing <= most_missing_.load(std::memory_order_relaxed)) return OkStatus();
  return all_->Renew(*this, missing);
}

void Promises::Count(Promise& promise, uint64_t missing) {
  counted_ -= promise.counted_;
  counted_ += missing;
  promise.counted_ = missing;
}

uint64_t Promises::Promised(const Promise* besides) const {
  return counted_ - (besides == nullptr ? 0 : besides->counted_);
}

Status Promises::CheckFits(uint64_t missing, const Promise* besides) {
  uint64_t available = available_();
  available -= std::min(available, kKeptBack);
  uint64_t promised = Promised(besides);
  if (promised <= available && missing <= available - promised) return OkStatus();
  for (Promise* promise : promises_) Count(*promise, missing_(promise->fd_, promise->bytes_));
  promised = Promised(besides);
  if (promised <= available && missing <= available - promised) return OkStatus();
  return {Code::kResourceExhausted, reasons::kNoMemory,
          FormatBytes(missing) + " of host memory do not fit: " + FormatBytes(available) +
              " are available, and " + FormatBytes(promised) +
              " of that are reserved for other buffers",
          "remove a buffer, ask for less, or raise the daemon's limit (MemoryMax= of its unit)"};
}

Status Promises::CheckRoom(uint64_t bytes) {
  const MutexLock lock(mutex_);
  return CheckFits(bytes, nullptr);
}

Result<std::unique_ptr<Promise>> Promises::Make(int fd, uint64_t bytes) {
  auto promise = std::unique_ptr<Promise>(new Promise(shared_from_this(), fd, bytes));
  const MutexLock lock(mutex_);
  promise->place_ = promises_.insert(promises_.end(), promise.get());
  const uint64_t missing = missing_(fd, bytes);
  if (missing > 0) ONECOPY_RETURN_IF_ERROR(CheckFits(missing, promise.get()));
  Count(*promise, missing);
  promise->most_missing_ = missing + kSlack;
  return promise;
}

Status Promises::Renew(Promise& promise, uint64_t missing) {
  const MutexLock lock(mutex_);
  ONECOPY_RETURN_IF_ERROR(CheckFits(missing, &promise));
  Count(promise, missing);
  promise.most_missing_ = missing + kSlack;
  return OkStatus();
}

void Promises::Remove(Promise& promise) {
  const MutexLock lock(mutex_);
  Count(promise, 0);
  promises_.erase(promise.place_);
}

}  // namespace onecopy::host
