// How a thread waits for a submission to a ring: it spins while the end may come at once, and
// sleeps while that is unlikely.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace onecopy::client {

// How long a route's long copies take, as its last one did. Thread-safe.
class RouteRate {
 public:
  // Copies below this tell how long beginning takes, not moving.
  static constexpr uint64_t kLeastBytes = uint64_t{1} << 20;

  void Note(uint64_t bytes, std::chrono::nanoseconds took);
  // Nothing before the first long copy has ended, and for short ones.
  std::optional<std::chrono::nanoseconds> Expect(uint64_t bytes) const;

 private:
  std::atomic<uint64_t> femtoseconds_per_byte_{0};
};

struct RingPause {
  enum class Kind {
    kPause,  // look again at once
    kYield,  // offer the processor first
    kSleep   // for at most `longest`, unless something ends
  };
  Kind kind = Kind::kPause;
  std::chrono::nanoseconds longest{0};
};

// `waited`: since the thread began to wait; `spin`: for how long the daemon itself spins; `left`:
// until the expected end, if one is expected; `longest`: for how long the thread may sleep.
//
// Waking a thread that has slept for milliseconds takes a virtual machine 200 µs: as long as moving
// 64 MiB between two GPUs. So the thread wakes by itself a little before the expected end, and
// spins from there on, until well after it.
RingPause ChoosePause(std::chrono::nanoseconds waited, std::chrono::nanoseconds spin,
                      std::optional<std::chrono::nanoseconds> left,
                      std::chrono::nanoseconds longest);

}  // namespace onecopy::client
