// How a daemon asks a client's library to copy, in memory that both share. See README.md.
#pragma once

#include <atomic>
#include <cstdint>

namespace onecopy::orders {

// Told in Welcome; changes with whatever changes below.
inline constexpr uint32_t kLayout = 1;
inline constexpr uint64_t kMagic = 0x0072656472'6f636f;  // "ocorder", as it lies in memory

inline constexpr uint64_t kOrders = 256;  // under way at a time; a power of two

enum class Way : uint64_t {
  kIntoSlab,  // from the process's memory
  kOutOfSlab
};

// What became of an order.
enum class Outcome : uint8_t {
  kCopied,
  kUnknownRegion,  // the client has taken that memory back
  kOutOfRegion,    // or may not write there
  kUnmapped,       // the memory is not there any more
  kVoid,           // it was given up before it began
  kFaulted         // a page of the memory could not be had; some bytes may have been copied
};

// One order: words by these numbers. `count` elements of `bytes` bytes each; the strides count
// where there are several.
struct alignas(64) Entry {
  enum Word { kNumber, kRegion, kOffset, kSlab, kBytes, kRegionStride, kSlabStride, kCountAndWay };
  static constexpr int kWords = 8;
  std::atomic<uint64_t> words[kWords];
};

// Order n lies at n modulo kOrders, and so does its answer; numbers only grow.
struct Shared {
  // Written before the client has it.
  std::atomic<uint64_t> magic;
  std::atomic<uint32_t> layout;

  // By the daemon.
  alignas(64) std::atomic<uint64_t> ordered;  // how many orders there are
  std::atomic<uint64_t> void_before;          // those below are not to be begun any more
  std::atomic<uint32_t> ended;                // 1: there will be no more

  // By both: a futex, on which the client's threads sleep. The client wakes its own.
  alignas(64) std::atomic<uint32_t> signal;

  // By the client: threads that sleep, or are about to.
  alignas(64) std::atomic<uint32_t> sleepers;

  // 1 from the daemon: a byte on the socket must follow the next answer. 0 from the client that
  // sends it.
  alignas(64) std::atomic<uint32_t> asleep;

  Entry entries[kOrders];
  // By the client: AnswerWord of the order that was done.
  std::atomic<uint64_t> answers[kOrders];
};

inline constexpr uint64_t AnswerWord(uint64_t number, Outcome outcome) {
  return (number + 1) << 8 | static_cast<uint64_t>(outcome);
}

// As both ends handle it.
struct Order {
  uint64_t number = 0;
  Way way = Way::kIntoSlab;
  uint64_t region = 0;  // by the client's name for it
  uint64_t offset = 0;  // in there
  uint64_t slab = 0;    // offset in the slab
  uint64_t bytes = 0;
  uint64_t region_stride = 0;
  uint64_t slab_stride = 0;
  uint64_t count = 1;
};

static_assert(sizeof(Entry) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace onecopy::orders
