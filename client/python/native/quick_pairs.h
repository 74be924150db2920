// Which transfers a ring may carry, as far as this module has seen: these are waited for without a
// thread of their own.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "onecopy/transfer.h"
#include "transport/core/mutex.h"

namespace onecopy::python {

// Any thread.
class QuickPairs {
 public:
  // Whether a transfer between these two buffers has succeeded before, and a ring can carry this
  // request.
  bool Contains(const TransferRequest& request) const;
  // This one has succeeded. Returns what Contains would.
  bool Note(const TransferRequest& request);

 private:
  mutable Mutex mutex_;
  std::set<std::pair<std::string, std::string>> seen_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::python
