// Counts the calls that each user has under way, so that nobody's fill the daemon's memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "daemon/engine/api/limits.h"
#include "daemon/engine/base/owners.h"
#include "onecopy/result.h"
#include "transport/core/mutex.h"

namespace onecopy::rpc {

// Any thread. A call counts until its answer has been sent, since it is kept until then: a client
// that does not read has it count for long.
class CallQuota {
 public:
  CallQuota(engine::Limit limit, size_t reserved_percent)
      : limit_(limit), reserved_((limit.total * reserved_percent + 99) / 100) {}

  // Counts `weight` calls for as long as the share is kept. RESOURCE_EXHAUSTED (QUOTA), which names
  // the limit and where it is set.
  Result<std::shared_ptr<void>> Take(const engine::Owner& owner, bool administrator, size_t weight);

 private:
  struct Counts {
    Mutex mutex;
    std::map<engine::Owner, size_t> of ONECOPY_GUARDED_BY(mutex);
    size_t all ONECOPY_GUARDED_BY(mutex) = 0;
    size_t others ONECOPY_GUARDED_BY(mutex) = 0;  // of no administrators
  };

  const engine::Limit limit_;
  const size_t reserved_;
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

// What a request counts for: its bytes are kept as long as it is under way, and the answer to one
// for a list may be as large as a message can be.
template <typename Request>
size_t WeightOf(const Request& request) {
  constexpr size_t kBytesOfOne = 64 * 1024;
  constexpr size_t kList = 16;
  const size_t bytes = request.ByteSizeLong() / kBytesOfOne;
  if constexpr (requires { request.page_size(); }) {
    return kList + bytes;
  } else {
    return 1 + bytes;
  }
}

}  // namespace onecopy::rpc
