// Many small pieces of a file by one call of the library (cuFileBatchIO), where it has that and its
// counters were seen to count it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/core/base/mutex.h"
#include "transport/shim/cufile.h"

namespace onecopy::cufile {

struct BatchPiece {
  uint64_t offset = 0;  // in the file
  uint64_t inside = 0;  // of the memory
  uint64_t bytes = 0;
};

// How one piece of a batch ended.
struct BatchEnd {
  enum class How {
    kNotTaken,   // the library did not begin it: it is as if it had not been asked for
    kMoved,      // `result` bytes, which may be fewer than asked for
    kFailed,     // `result` is negative: of errno, or the library's code
    kCancelled,  // some of it may have been moved
    kLost,       // the library does not say any more, and may still touch the memory
  };
  How how = How::kNotTaken;
  ssize_t result = 0;
};

// Of one user's files: contexts of the library that are kept between batches.
class Batches {
 public:
  struct Options {
    unsigned entries = 0;                           // of a batch; less than 2: there are none
    std::chrono::milliseconds poll{100};            // between looks at `stop`
    std::chrono::milliseconds after_cancel{60000};  // without an answer, until it is lost
    unsigned errors = 100;  // of asking how it goes, one after the other, until it is lost
  };

  Batches(std::shared_ptr<const shim::CuFileApi> api, Options options)
      : api_(std::move(api)), options_(options) {}
  // With nothing under way.
  ~Batches();
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  // Any thread. 0 where pieces are moved one by one: by configuration, or since the library failed.
  unsigned entries() const;
  // Why the library failed; empty where it did not.
  std::string broken() const;

  // Any thread that may wait, with the context of the memory's GPU current. `pieces`: `entries()`
  // at most, which do not overlap, of registered memory that begins at `base`. Blocks until each
  // has ended; where `stop` is set the library is asked to cancel them first.
  std::vector<BatchEnd> Run(bool write, shim::cufile::Handle file, std::byte* base,
                            std::span<const BatchPiece> pieces, const std::atomic<bool>& stop);

 private:
  shim::cufile::BatchHandle Take();
  void GiveBack(shim::cufile::BatchHandle handle);
  void Break(const std::string& what, const shim::cufile::Error& error);
  bool Reap(shim::cufile::BatchHandle handle, const std::atomic<bool>& stop,
            std::vector<BatchEnd>& ends);

  const std::shared_ptr<const shim::CuFileApi> api_;
  const Options options_;
  mutable Mutex mutex_;
  std::vector<shim::cufile::BatchHandle> idle_ ONECOPY_GUARDED_BY(mutex_);
  std::string broken_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::cufile
