#include "transport/store/posix/cached_reads.h"

#include <array>
#include <cstdio>

namespace onecopy::posix {

bool CachedReads::by_threads() const {
  const MutexLock lock(mutex_);
  return threads_;
}

std::optional<double> CachedReads::threads_to_ring() const {
  const MutexLock lock(mutex_);
  return threads_to_ring_;
}

std::unique_ptr<CachedReads::Turn> CachedReads::Take() {
  const MutexLock lock(mutex_);
  if (!choice_ || trying_ || tried_) return nullptr;
  trying_ = true;
  return std::make_unique<Turn>(*this);
}

void CachedReads::End(bool tried, const std::optional<Trial::Ratios>& threads_to_ring) {
  const MutexLock lock(mutex_);
  trying_ = false;
  tried_ = tried;
  if (!threads_to_ring) return;
  threads_to_ring_ = (*threads_to_ring)[Trial::kPairs / 2];
  const bool otherwise = begins_with_threads_ ? threads_to_ring->back() < 1 / kClearly
                                              : threads_to_ring->front() > kClearly;
  const bool settled = otherwise && once_;
  threads_ = begins_with_threads_ != settled;
  tried_ = settled || !otherwise;
  once_ = otherwise;
}

std::map<std::string, std::string> CachedReads::Describe() const {
  if (!choice_) return {};
  const MutexLock lock(mutex_);
  std::string words = threads_ ? "threads" : "io_uring";
  if (threads_to_ring_) {
    std::array<char, 64> ratio{};
    std::snprintf(ratio.data(), ratio.size(), ", threads measured as %.2f of io_uring",
                  *threads_to_ring_);
    words += ratio.data();
    if (!tried_) words += ", to be confirmed";
  } else {
    words += tried_ ? ", too slow to be measured" : ", not measured yet";
  }
  return {{"cached_reads", words}};
}

}  // namespace onecopy::posix
