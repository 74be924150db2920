// Chooses what copies out of the page cache: the kernel's threads of a ring, or threads of this
// process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "transport/core/base/mutex.h"
#include "transport/store/posix/trial.h"

namespace onecopy::posix {

// Which is faster is a matter of the kernel and of how many cores there are, not of the file. It
// begins with what was faster on as many cores; the first large file that is in memory is read by
// turns, a segment each. Where that says otherwise, a second one must say the same, and then it is
// the other for all after it: on busy cores one file alone was seen to be wrong. Any thread.
class CachedReads {
 public:
  static constexpr uint64_t kSegmentBytes = uint64_t{64} << 20;
  // All segments, and something after the last, by whose beginning its end is noticed.
  static constexpr uint64_t kLeastBytes = (Trial::kSegments + 1) * kSegmentBytes;
  // What it begins with stays unless the other was that much faster each time.
  static constexpr double kClearly = 1.1;
  // From so many cores on it begins with threads.
  static constexpr unsigned kThreadsFromCores = 8;

  // `choice`: both ways exist, and the configuration does not choose one.
  explicit CachedReads(bool choice, bool begins_with_threads = false)
      : choice_(choice),
        begins_with_threads_(choice && begins_with_threads),
        threads_(begins_with_threads_) {}

  bool by_threads() const;
  // The rate of threads over the ring's, the median, as it was measured last; absent: it was not.
  std::optional<double> threads_to_ring() const;

  // The right to try: to one at a time, and to none without a choice, or once it is made. The
  // right ends with the object, which this outlives.
  class Turn;
  std::unique_ptr<Turn> Take();

  // For people; nothing without a choice.
  std::map<std::string, std::string> Describe() const;

 private:
  void End(bool tried, const std::optional<Trial::Ratios>& threads_to_ring);

  const bool choice_;
  const bool begins_with_threads_;
  mutable Mutex mutex_;
  bool trying_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool tried_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool once_ ONECOPY_GUARDED_BY(mutex_) = false;  // one file was for the other
  bool threads_ ONECOPY_GUARDED_BY(mutex_);
  std::optional<double> threads_to_ring_ ONECOPY_GUARDED_BY(mutex_);
};

class CachedReads::Turn {
 public:
  explicit Turn(CachedReads& reads) : reads_(reads) {}
  ~Turn() { reads_.End(tried_, ratios_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // What the trial came to, whose first way was by threads; nothing: it took too long, and is not
  // to be repeated.
  void End(const std::optional<Trial::Ratios>& threads_to_ring) {
    tried_ = true;
    ratios_ = threads_to_ring;
  }

 private:
  CachedReads& reads_;
  bool tried_ = false;
  std::optional<Trial::Ratios> ratios_;
};

}  // namespace onecopy::posix
