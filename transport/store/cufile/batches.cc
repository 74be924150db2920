#include "transport/store/cufile/batches.h"

#include <algorithm>
#include <cerrno>
#include <thread>

namespace onecopy::cufile {
namespace {

using shim::cufile::BatchEntry;
using shim::cufile::BatchEvent;
using How = BatchEnd::How;

// Whether the entry has come to an end, so that the library touches its memory no more.
bool HasEnded(int status) {
  using namespace shim::cufile;
  return status == kBatchComplete || status == kBatchInvalid || status == kBatchCancelled ||
         status == kBatchFailed;
}

// Of one that has ended.
BatchEnd EndOf(const BatchEvent& event) {
  const auto result = static_cast<ssize_t>(event.result);
  switch (event.status) {
    case shim::cufile::kBatchComplete:
      return {result < 0 ? How::kFailed : How::kMoved, result};
    case shim::cufile::kBatchInvalid:
      return {How::kNotTaken, 0};
    case shim::cufile::kBatchCancelled:
      return {How::kCancelled, 0};
    default:
      return {How::kFailed, result < 0 ? result : -EIO};
  }
}

timespec TimespecOf(std::chrono::milliseconds time) {
  return {.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
}

}  // namespace

Batches::~Batches() {
  const MutexLock lock(mutex_);
  for (const auto handle : idle_) api_->DestroyBatch(handle);
}

unsigned Batches::entries() const {
  const MutexLock lock(mutex_);
  return broken_.empty() && options_.entries >= 2 && api_->batches() ? options_.entries : 0;
}

std::string Batches::broken() const {
  const MutexLock lock(mutex_);
  return broken_;
}

shim::cufile::BatchHandle Batches::Take() {
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      const auto handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
  }
  shim::cufile::BatchHandle handle = nullptr;
  const shim::cufile::Error made = api_->SetUpBatch(&handle, options_.entries);
  if (made.code == 0) return handle;
  Break("setting up a batch", made);
  return nullptr;
}

void Batches::GiveBack(shim::cufile::BatchHandle handle) {
  const MutexLock lock(mutex_);
  idle_.push_back(handle);
}

void Batches::Break(const std::string& what, const shim::cufile::Error& error) {
  const MutexLock lock(mutex_);
  if (broken_.empty()) {
    broken_ = what + (error.code == 0 ? "" : ": " + shim::CuFileErrorText(error));
  }
}

std::vector<BatchEnd> Batches::Run(bool write, shim::cufile::Handle file, std::byte* base,
                                   std::span<const BatchPiece> pieces,
                                   const std::atomic<bool>& stop) {
  std::vector<BatchEnd> ends(pieces.size());
  const shim::cufile::BatchHandle handle = Take();
  if (handle == nullptr) return ends;
  std::vector<BatchEntry> entries(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    entries[i].move = {base, static_cast<off_t>(pieces[i].offset),
                       static_cast<off_t>(pieces[i].inside), pieces[i].bytes};
    entries[i].file = file;
    entries[i].write = write ? 1 : 0;
    entries[i].cookie = reinterpret_cast<void*>(i + 1);
  }
  const shim::cufile::Error submitted =
      api_->SubmitBatch(handle, static_cast<unsigned>(entries.size()), entries.data(), 0);
  if (submitted.code != 0) {
    Break("submitting a batch", submitted);
    if (submitted.code == shim::cufile::kBatchSubmitFailed) {  // nothing of it has begun
      api_->DestroyBatch(handle);
      return ends;
    }
    // Some of it may have. A thread that polls it may wait for ever, so its context stays, too.
    api_->CancelBatch(handle);
    for (BatchEnd& end : ends) end.how = How::kLost;
    return ends;
  }
  for (BatchEnd& end : ends) end.how = How::kLost;
  const bool again = Reap(handle, stop, ends);
  const bool lost = std::any_of(ends.begin(), ends.end(),
                                [](const BatchEnd& end) { return end.how == How::kLost; });
  // The context of what is under way is the library's: it stays until the process ends.
  if (lost) return ends;
  if (again) {
    GiveBack(handle);
  } else {
    api_->DestroyBatch(handle);
  }
  return ends;
}

// Whether all have ended, and the context can be used again. Those that have not ended are lost.
bool Batches::Reap(shim::cufile::BatchHandle handle, const std::atomic<bool>& stop,
                   std::vector<BatchEnd>& ends) {
  using Clock = std::chrono::steady_clock;
  std::vector<BatchEvent> events(ends.size());
  std::vector<bool> ended(ends.size());
  size_t left = ends.size();
  unsigned errors = 0;
  bool cancelled = false;
  Clock::time_point heard = Clock::now();
  while (left > 0) {
    if (stop && !cancelled) {
      cancelled = true;
      heard = Clock::now();
      api_->CancelBatch(handle);  // where it cannot be, they end as they would have
    }
    timespec patience = TimespecOf(options_.poll);
    auto got = static_cast<unsigned>(left);
    const shim::cufile::Error asked =
        api_->GetBatchStatus(handle, static_cast<unsigned>(left), &got, events.data(), &patience);
    if (asked.code != 0) {
      if (++errors == options_.errors) {
        Break("asking for the state of a batch", asked);
        return false;
      }
      std::this_thread::sleep_for(options_.poll);  // "retry later"
      continue;
    }
    errors = 0;
    if (got == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (unsigned i = 0; i < got && i < left; ++i) {
      const size_t piece = reinterpret_cast<uintptr_t>(events[i].cookie) - 1;
      if (piece >= ends.size() || ended[piece]) {
        Break("a batch reported an unknown piece, or one piece twice", {});
        continue;
      }
      if (events[i].status == shim::cufile::kBatchWaiting ||
          events[i].status == shim::cufile::kBatchPending) {
        continue;
      }
      if (!HasEnded(events[i].status)) Break("an entry of a batch did not end as others do", {});
      ended[piece] = true;
      if (HasEnded(events[i].status)) ends[piece] = EndOf(events[i]);  // else it is lost
    }
    const size_t before = left;
    left = static_cast<size_t>(std::count(ended.begin(), ended.end(), false));
    if (left < before) heard = Clock::now();
    if (cancelled && Clock::now() - heard > options_.after_cancel) {
      Break("a batch that was cancelled did not end", {});
      return false;
    }
  }
  return !cancelled;
}

}  // namespace onecopy::cufile
