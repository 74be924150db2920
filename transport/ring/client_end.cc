#include "transport/ring/client_end.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/threads/futex.h"

namespace onecopy::ring {

Result<ClientEnd> ClientEnd::Open(const os::UniqueFd& memory, os::UniqueFd socket) {
  const Status unknown(Code::kUnimplemented, reasons::kNotServed,
                       "the daemon's ring has a layout that this library does not know");
  struct stat facts {};
  if (::fstat(memory.get(), &facts) != 0 || facts.st_size != sizeof(Shared)) return unknown;
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(memory.get(), sizeof(Shared)));
  ClientEnd end(std::move(mapping), std::move(socket));
  if (end.shared().magic.load(std::memory_order_acquire) != kMagic) return unknown;
  if (end.shared().layout.load(std::memory_order_relaxed) != kLayout) return unknown;
  return end;
}

ClientEnd::ClientEnd(ClientEnd&&) noexcept = default;

bool ClientEnd::HasRoom() const {
  return submitted_ - shared().taken.load(std::memory_order_acquire) < kSubmissions &&
         state() == State::kOpen;
}

bool ClientEnd::Submit(uint64_t route, uint64_t from, uint64_t to, uint64_t bytes, uint64_t* number,
                       bool sum) {
  if (!HasRoom()) return false;
  Put({route, from, to, bytes, 0, sum ? kSum : 0}, number);
  return true;
}

bool ClientEnd::SubmitMany(uint64_t route, const Pieces& pieces, uint64_t bytes, uint64_t* number) {
  const auto free = std::find(lists_used_.begin(), lists_used_.end(), 0);
  if (free == lists_used_.end() || !HasRoom()) return false;
  const auto place = static_cast<uint32_t>(free - lists_used_.begin());
  Piece* const list = shared().lists[place];
  const size_t count = pieces.sources.size();
  for (size_t i = 0; i < count; ++i) {
    list[i].from.store(pieces.from + pieces.sources[i], std::memory_order_relaxed);
    list[i].to.store(pieces.to + pieces.targets[i], std::memory_order_relaxed);
  }
  Put({route, 0, 0, bytes, ListWord(place, static_cast<uint32_t>(count)), 0}, number);
  *free = *number + 1;
  return true;
}

void ClientEnd::Put(std::initializer_list<uint64_t> words, uint64_t* number) {
  Shared& ring = shared();
  Submission& entry = ring.submissions[submitted_ % kSubmissions];
  entry.words[Submission::kNumber].store(submitted_, std::memory_order_relaxed);
  int place = Submission::kRoute;
  for (const uint64_t word : words) entry.words[place++].store(word, std::memory_order_relaxed);
  *number = submitted_++;
  ring.submitted.store(submitted_, std::memory_order_release);
  WakeDaemon();
}

void ClientEnd::WakeDaemon() {
  Shared& ring = shared();
  // Either the daemon's word is seen here, or it sees the submission before it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (ring.asleep.load(std::memory_order_relaxed) == 0) return;
  if (ring.asleep.exchange(0, std::memory_order_relaxed) == 0) return;
  const char byte = 1;
  // A full socket has a byte in it that wakes.
  static_cast<void>(!::send(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
}

bool ClientEnd::HasCompleted() const {
  return shared().completed.load(std::memory_order_acquire) !=
         shared().reaped.load(std::memory_order_relaxed);
}

bool ClientEnd::Reap(Ended* ended) {
  Shared& ring = shared();
  const uint64_t completed = ring.completed.load(std::memory_order_acquire);
  if (completed == reaped_) {
    // The daemon stops if the client does not read, and must hear that there is room again.
    if (std::exchange(no_room_, false)) WakeDaemon();
    return false;
  }
  no_room_ = no_room_ || submitted_ - reaped_ >= kCompletions;
  const Completion& entry = ring.completions[reaped_ % kCompletions];
  ended->number = entry.words[Completion::kNumber].load(std::memory_order_relaxed);
  ended->code = CodeFromNumber(
      static_cast<int>(entry.words[Completion::kCode].load(std::memory_order_relaxed)));
  ended->nanoseconds = entry.words[Completion::kNanoseconds].load(std::memory_order_relaxed);
  for (int i = Completion::kReason; i < Completion::kWords; ++i) {
    const uint64_t word = entry.words[i].load(std::memory_order_relaxed);
    std::memcpy(ended->reason + (i - Completion::kReason) * sizeof word, &word, sizeof word);
  }
  std::memcpy(ended->sum.data(), ended->reason, ended->sum.size());
  ring.reaped.store(++reaped_, std::memory_order_release);
  const auto list = std::find(lists_used_.begin(), lists_used_.end(), ended->number + 1);
  if (list != lists_used_.end()) *list = 0;
  return true;
}

void ClientEnd::Sleep(std::chrono::nanoseconds limit) {
  Shared& ring = shared();
  const uint32_t before = ring.signal.load(std::memory_order_acquire);
  ring.sleepers.fetch_add(1, std::memory_order_relaxed);
  // Either what has completed is seen here, or the daemon sees a sleeper and changes the word.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!HasCompleted() && state() == State::kOpen) os::FutexWait(ring.signal, before, limit);
  ring.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void ClientEnd::WakeOthers() {
  if (shared().sleepers.load(std::memory_order_relaxed) == 0) return;
  shared().signal.fetch_add(1, std::memory_order_release);
  os::FutexWake(shared().signal, INT_MAX);
}

State ClientEnd::state() const {
  return static_cast<State>(shared().state.load(std::memory_order_acquire));
}

bool ClientEnd::DaemonIsGone() const {
  char byte = 0;
  return ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

}  // namespace onecopy::ring
