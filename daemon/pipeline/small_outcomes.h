// Outcomes of small copies that another thread makes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "onecopy/status.h"
#include "transport/core/base/executor.h"
#include "transport/core/base/mutex.h"
#include "transport/core/base/unique_function.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::pipeline {

// Copies are numbered from 0 on, as they are begun. Once one has failed, so have all after it: what
// ended it would end them. Shared by the route and whoever makes its copies, who may outlive it.
class SmallOutcomes {
 public:
  // Runs at most once, on the thread that makes the copies.
  using Failed = UniqueFunction<void(const Status&)>;
  explicit SmallOutcomes(Failed failed) : failed_(std::move(failed)) {}

  // The thread that makes the copies. A copy that has ended stays as it is.
  void Ended(uint64_t number, const Status& status);
  // Likewise: all before `begun` that have not ended have failed, and so has the route.
  void FailAll(uint64_t begun, const Status& why);

  // The thread that asks: as SmallCopyRoute::Reached, where a mark is the number of copies begun.
  bool Reached(uint64_t mark, Status* failure);

 private:
  void Tell(const Status& why);

  static constexpr uint64_t kPlaces = SmallCopyRoute::kMaxUnderWay;

  // Modulo their number: the number of a copy, plus one, once it has ended.
  std::array<std::atomic<uint64_t>, kPlaces> ended_{};
  std::atomic<uint64_t> first_failed_{UINT64_MAX};
  Mutex mutex_;
  Status failure_ ONECOPY_GUARDED_BY(mutex_);

  Failed failed_;         // of the thread that makes the copies
  uint64_t reached_ = 0;  // of the thread that asks
};

}  // namespace onecopy::pipeline
