#include "transport/ring/daemon_end.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "transport/os/threads/futex.h"

namespace onecopy::ring {

Result<DaemonEnd> DaemonEnd::Make() {
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd memory, os::SealedMemfd("onecopy-ring", sizeof(Shared)));
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(memory.get(), sizeof(Shared)));
  auto* shared = new (mapping.data()) Shared{};  // touches every page
  shared->layout.store(kLayout, std::memory_order_relaxed);
  shared->asleep.store(1, std::memory_order_relaxed);
  shared->magic.store(kMagic, std::memory_order_release);
  return DaemonEnd(std::move(memory), std::move(mapping));
}

DaemonEnd::Taken DaemonEnd::Take(Request* request) {
  if (broken_) return Taken::kBroken;
  if (seen_ == taken_) {
    seen_ = shared().submitted.load(std::memory_order_acquire);
    if (seen_ == taken_) return Taken::kNothing;
    if (seen_ - taken_ > kSubmissions) {
      broken_ = true;
      return Taken::kBroken;
    }
  }
  // What is under way has its room, and so has this one. A number from the future, or from long
  // ago, is not a number of read completions.
  const uint64_t reaped = shared().reaped.load(std::memory_order_acquire);
  if (reaped > completed_ || completed_ - reaped > kCompletions) {
    broken_ = true;
    return Taken::kBroken;
  }
  if (taken_ - reaped >= kCompletions) return Taken::kNoRoom;

  const Submission& entry = shared().submissions[taken_ % kSubmissions];
  uint64_t words[Submission::kWords];
  for (int i = 0; i < Submission::kWords; ++i) {
    words[i] = entry.words[i].load(std::memory_order_relaxed);
  }
  request->number = taken_++;
  request->torn = words[Submission::kNumber] != request->number;
  request->route = words[Submission::kRoute];
  request->from = words[Submission::kFrom];
  request->to = words[Submission::kTo];
  request->bytes = words[Submission::kBytes];
  const uint64_t options = words[Submission::kOptions];
  request->sum = options == kSum;
  request->torn = request->torn || (options & ~kSum) != 0;
  const uint64_t list = words[Submission::kList];
  request->list = ListOf(list);
  request->pieces = PiecesOf(list);
  if (list == 0) return Taken::kOne;
  const bool sound =
      request->list < kLists && request->pieces > 0 && request->pieces <= kMostPieces;
  if (!sound) {
    request->torn = true;
    request->pieces = 0;
  }
  return Taken::kOne;
}

void DaemonEnd::ReadList(const Request& request, std::span<CopyPiece> pieces) const {
  const Piece* const list = shared().lists[request.list];
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i] = {list[i].from.load(std::memory_order_relaxed),
                 list[i].to.load(std::memory_order_relaxed)};
  }
}

void DaemonEnd::Complete(uint64_t number, uint64_t nanoseconds, Code code,
                         std::string_view reason) {
  Put(number, nanoseconds, code, std::as_bytes(std::span(reason)));
}

void DaemonEnd::Complete(uint64_t number, uint64_t nanoseconds, const SmallSum& sum) {
  Put(number, nanoseconds, Code::kOk, sum);
}

void DaemonEnd::Put(uint64_t number, uint64_t nanoseconds, Code code,
                    std::span<const std::byte> rest) {
  Completion& entry = shared().completions[completed_++ % kCompletions];
  char bytes[kReasonBytes] = {};
  std::memcpy(bytes, rest.data(), std::min<size_t>(rest.size(), kReasonBytes));
  entry.words[Completion::kNumber].store(number, std::memory_order_relaxed);
  entry.words[Completion::kCode].store(static_cast<uint64_t>(code), std::memory_order_relaxed);
  entry.words[Completion::kNanoseconds].store(nanoseconds, std::memory_order_relaxed);
  for (int i = Completion::kReason; i < Completion::kWords; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + (i - Completion::kReason) * sizeof word, sizeof word);
    entry.words[i].store(word, std::memory_order_relaxed);
  }
}

void DaemonEnd::Publish() {
  if (published_ == completed_) return;
  published_ = completed_;
  shared().completed.store(completed_, std::memory_order_release);
  // Either the client's count of sleepers is seen here, or it sees the number before it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (shared().sleepers.load(std::memory_order_relaxed) == 0) return;
  shared().signal.fetch_add(1, std::memory_order_release);
  // One, however many there are: waking the others is the client's own work.
  os::FutexWake(shared().signal, 1);
}

bool DaemonEnd::Sleep() {
  shared().asleep.store(1, std::memory_order_relaxed);
  // Either the client sees this after it has submitted, or its submission is seen here.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (broken_) return true;
  const bool more = shared().submitted.load(std::memory_order_relaxed) != taken_;
  if (!more || taken_ - shared().reaped.load(std::memory_order_relaxed) >= kCompletions) {
    return true;
  }
  shared().asleep.store(0, std::memory_order_relaxed);
  return false;
}

void DaemonEnd::End(State why) {
  Publish();
  shared().state.store(static_cast<uint32_t>(why), std::memory_order_release);
  shared().signal.fetch_add(1, std::memory_order_release);
  os::FutexWake(shared().signal, 1);
}

}  // namespace onecopy::ring
