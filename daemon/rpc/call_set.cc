#include "daemon/rpc/call_set.h"

#include <utility>
#include <vector>

namespace onecopy::rpc {

bool CallSet::Enter(std::shared_ptr<ServerCall> call) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  calls_.insert(std::move(call));
  return true;
}

void CallSet::Leave(const std::shared_ptr<ServerCall>& call) {
  const std::lock_guard lock(mutex_);
  calls_.erase(call);
  if (calls_.empty()) emptied_.notify_all();
}

void CallSet::Close(const Status& why) {
  std::vector<std::shared_ptr<ServerCall>> calls;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    calls.assign(calls_.begin(), calls_.end());
  }
  for (const std::shared_ptr<ServerCall>& call : calls) call->Abort(why);
}

void CallSet::WaitUntilEmpty() {
  std::unique_lock lock(mutex_);
  emptied_.wait(lock, [this] { return calls_.empty(); });
}

}  // namespace onecopy::rpc
