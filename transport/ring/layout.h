// The memory that a client and its daemon share: a ring of submissions and a ring of completions.
// README.md says who writes what, in which order, and why nothing here is trusted.
#pragma once

#include <atomic>
#include <cstdint>

namespace onecopy::ring {

// Of everything below. A client that knows another one does without the ring.
inline constexpr uint32_t kLayout = 3;
inline constexpr uint64_t kMagic = 0x00676e69722d636f;  // "oc-ring", as it lies in memory

inline constexpr uint64_t kSubmissions = 512;   // a power of two
inline constexpr uint64_t kCompletions = 1024;  // likewise; not fewer than submissions
inline constexpr uint32_t kRoutes = 1024;       // of one ring
inline constexpr uint32_t kLists = 8;           // of pieces, of one ring
inline constexpr uint32_t kMostPieces = 1024;   // of one list
// The longest transfer by any route: the daemon's one thread for rings copies host memory by
// itself.
inline constexpr uint64_t kMaxBytes = 64 * 1024;
// The longest one by a route whose copies hardware makes while that thread goes on.
inline constexpr uint64_t kMaxLongBytes = uint64_t{4} << 30;

// How a submission names its route: by its place among the ring's routes and a serial number, so
// that a place that is used again is not taken for what was there before.
inline constexpr uint64_t RouteWord(uint64_t serial, uint32_t place) {
  return serial << 16 | place;
}
inline constexpr uint32_t RoutePlace(uint64_t word) { return word & 0xffff; }
static_assert(kRoutes <= 65'536);

// One transfer, asked for: words by these numbers. kList is 0 for one piece, from kFrom to kTo.
// Otherwise ListWord: the transfer consists of the pieces of a list, kBytes each, and kFrom and kTo
// are not read. kOptions: kSum or 0.
struct alignas(64) Submission {
  enum Word { kNumber, kRoute, kFrom, kTo, kBytes, kList, kOptions, kWords = 8 };
  std::atomic<uint64_t> words[kWords];
};

// To compare the checksums of both ends. Not of a list.
inline constexpr uint64_t kSum = 1;

inline constexpr uint64_t ListWord(uint32_t list, uint32_t pieces) {
  return uint64_t{list} << 32 | pieces;
}
inline constexpr uint64_t ListOf(uint64_t word) { return word >> 32; }
inline constexpr uint64_t PiecesOf(uint64_t word) { return word & UINT32_MAX; }

// One piece of a list: where it begins in each buffer.
struct Piece {
  std::atomic<uint64_t> from;
  std::atomic<uint64_t> to;
};

// A transfer that has ended. The reason is text, with zeroes behind it. If the transfer asked for a
// checksum and succeeded, its 16 bytes are in the reason's place.
struct alignas(64) Completion {
  enum Word { kNumber, kCode, kNanoseconds, kReason, kWords = 8 };
  std::atomic<uint64_t> words[kWords];
};
inline constexpr uint64_t kReasonBytes = (Completion::kWords - Completion::kReason) * 8;

// Whether a ring is open, or why not.
enum class State : uint32_t { kOpen, kBroken, kEnded };

// All numbers only grow; entry n of a ring is number n modulo the ring's size.
struct Shared {
  // Written before the client has it.
  std::atomic<uint64_t> magic;
  std::atomic<uint32_t> layout;

  // By the client.
  alignas(64) std::atomic<uint64_t> submitted;  // how many submissions there are
  alignas(64) std::atomic<uint64_t> reaped;     // how many completions have been read
  std::atomic<uint32_t> sleepers;               // threads that sleep on `signal`, or are about to

  // By the daemon.
  alignas(64) std::atomic<uint64_t> taken;  // how many submissions may be overwritten
  alignas(64) std::atomic<uint64_t> completed;
  std::atomic<uint32_t> signal;  // a futex; changes when sleepers are woken
  std::atomic<uint32_t> state;   // State

  // 1 from the daemon: a byte on the socket must follow the next submission. 0 from the client that
  // sends it.
  alignas(64) std::atomic<uint32_t> asleep;

  Submission submissions[kSubmissions];
  Completion completions[kCompletions];
  // The client may write a list again once the submission that named it has ended.
  Piece lists[kLists][kMostPieces];
};

static_assert(sizeof(Submission) == 64 && sizeof(Completion) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace onecopy::ring
