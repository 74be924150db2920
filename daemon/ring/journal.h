// The last transfers of one ring, as its thread saw them end; receipts are made of them on request.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/ring/counts.h"
#include "daemon/ring/entry.h"
#include "daemon/ring/long_ends.h"

namespace onecopy::ring {

// Written by the ring's thread, without a lock or an allocation; read by any.
class Journal {
 public:
  static constexpr uint64_t kEntries = 1024;

  // `long_ended`: see LongEnds.
  explicit Journal(std::function<void()> long_ended = [] {})
      : slots_(std::make_unique<std::array<Slot, kEntries>>()), long_ends_(std::move(long_ended)) {}

  LongEnds& long_ends() { return long_ends_; }

  void Write(const Entry& entry) {
    Slot& slot = (*slots_)[entry.number % kEntries];
    const uint64_t version = slot.version.load(std::memory_order_relaxed);
    slot.version.store(version + 1, std::memory_order_relaxed);  // odd: being written
    std::atomic_thread_fence(std::memory_order_release);
    const auto time = [](Clock::time_point when) {
      return static_cast<uint64_t>(when.time_since_epoch().count());
    };
    std::array<uint64_t, 2> sum{};
    if (entry.sum) std::memcpy(sum.data(), entry.sum->data(), sizeof sum);
    const std::array<uint64_t, kWords> words = {entry.number,
                                                entry.route,
                                                entry.from,
                                                entry.to,
                                                entry.bytes,
                                                static_cast<uint64_t>(entry.outcome),
                                                time(entry.taken),
                                                time(entry.begun),
                                                time(entry.ended),
                                                entry.from_bytes,
                                                entry.to_bytes,
                                                entry.pieces,
                                                entry.sum ? 1u : 0u,
                                                sum[0],
                                                sum[1]};
    for (size_t i = 0; i < kWords; ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
    slot.version.store(version + 2, std::memory_order_release);
    const bool succeeded = entry.outcome == Outcome::kSucceeded;
    (succeeded ? succeeded_ : failed_).Add(1);
    if (succeeded) bytes_.Add(entry.bytes);
  }

  // Nothing for one that has not ended, never was, or has been written over since.
  std::optional<Entry> Read(uint64_t number) const {
    const Slot& slot = (*slots_)[number % kEntries];
    const uint64_t before = slot.version.load(std::memory_order_acquire);
    if (before == 0 || before % 2 != 0) return std::nullopt;
    std::array<uint64_t, kWords> words{};
    for (size_t i = 0; i < kWords; ++i) words[i] = slot.words[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.version.load(std::memory_order_relaxed) != before) return std::nullopt;
    if (words[0] != number) return std::nullopt;
    const auto time = [](uint64_t count) {
      return Clock::time_point(Clock::duration(static_cast<Clock::rep>(count)));
    };
    std::optional<SmallSum> sum;
    if (words[12] != 0) std::memcpy(sum.emplace().data(), &words[13], sizeof *sum);
    return Entry{.number = words[0],
                 .route = words[1],
                 .from = words[2],
                 .to = words[3],
                 .bytes = words[4],
                 .from_bytes = words[9],
                 .to_bytes = words[10],
                 .pieces = words[11],
                 .sum = sum,
                 .outcome = static_cast<Outcome>(words[5]),
                 .taken = time(words[6]),
                 .begun = time(words[7]),
                 .ended = time(words[8])};
  }

  // The number of whatever was written to this slot last, if anything was.
  std::optional<uint64_t> NumberIn(uint64_t slot) const {
    const Slot& one = (*slots_)[slot];
    if (one.version.load(std::memory_order_acquire) == 0) return std::nullopt;
    return one.words[0].load(std::memory_order_relaxed);
  }

  // Of all that were written.
  uint64_t succeeded() const { return succeeded_.Read(); }
  uint64_t failed() const { return failed_.Read(); }
  uint64_t bytes() const { return bytes_.Read(); }

  // Of those that named no route of the ring.
  Counts& without_route() { return without_route_; }

 private:
  static constexpr size_t kWords = 15;
  struct Slot {
    std::atomic<uint64_t> version{0};
    std::array<std::atomic<uint64_t>, kWords> words{};
  };

 public:
  // Of one journal, beside itself.
  static constexpr uint64_t kBytes = sizeof(std::array<Slot, kEntries>) + LongEnds::kBytes;

 private:
  std::unique_ptr<std::array<Slot, kEntries>> slots_;
  LongEnds long_ends_;
  OneWriterCount succeeded_;
  OneWriterCount failed_;
  OneWriterCount bytes_;
  Counts without_route_;
};

}  // namespace onecopy::ring
