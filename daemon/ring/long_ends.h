// The ends of long transfers of one ring, and of short ones whose checksums differ, until the
// engine has taken them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/ring/entry.h"

namespace onecopy::ring {

// One thread puts, another one takes: none is lost, since whoever puts sees to the room.
class LongEnds {
 public:
  // `news` runs on the putting thread when there is something to take, and then not again until
  // TakeSome has found nothing more.
  explicit LongEnds(std::function<void()> news) : news_(std::move(news)) {}

  // Putting thread, as Put and Tell.
  bool HasRoomFor(uint64_t more) const {
    return put_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_acquire) + more <=
           kPlaces;
  }
  // Where there is room.
  void Put(const Entry& entry) {
    const uint64_t at = put_.load(std::memory_order_relaxed);
    (*entries_)[at % kPlaces] = entry;
    put_.store(at + 1, std::memory_order_release);
    untold_ = true;
  }
  // Before anybody else hears of what was put.
  void Tell() {
    if (std::exchange(untold_, false) && !told_.exchange(true)) news_();
  }

  // Taking thread, once for each news. Gives `use` at most `most` of them, oldest first: a client
  // may put as quickly as they are taken. True where it stopped at `most`: no news will come of the
  // rest, so the caller takes again, after what else it has to do.
  template <typename Use>
  bool TakeSome(uint64_t most, const Use& use) {
    for (; most > 0; --most) {
      if (TakeOne(use)) continue;
      told_.exchange(false);  // what is put from here on is told
      // Unless that has been told already, what came meanwhile is for this call.
      if (!Any() || told_.exchange(true)) return false;
    }
    return true;
  }
  // Taking thread. All that were put before the call; of others comes news.
  template <typename Use>
  void TakeAll(const Use& use) {
    for (uint64_t i = 0; i < kPlaces && TakeOne(use); ++i) {
    }
  }

  static constexpr uint64_t kPlaces = 512;
  static constexpr uint64_t kBytes = kPlaces * sizeof(Entry);

 private:
  bool Any() const {
    return taken_.load(std::memory_order_relaxed) != put_.load(std::memory_order_acquire);
  }
  // False where there is none.
  template <typename Use>
  bool TakeOne(const Use& use) {
    if (!Any()) return false;
    const uint64_t at = taken_.load(std::memory_order_relaxed);
    const Entry entry = (*entries_)[at % kPlaces];
    taken_.store(at + 1, std::memory_order_release);
    use(entry);
    return true;
  }

  const std::function<void()> news_;
  const std::unique_ptr<std::array<Entry, kPlaces>> entries_ =
      std::make_unique<std::array<Entry, kPlaces>>();
  std::atomic<uint64_t> put_{0};
  std::atomic<uint64_t> taken_{0};
  std::atomic<bool> told_{false};
  bool untold_ = false;  // the putting thread's
};

}  // namespace onecopy::ring
