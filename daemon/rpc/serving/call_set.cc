#include "daemon/rpc/serving/call_set.h"

#include <utility>
#include <vector>

namespace onecopy::rpc {

bool CallSet::Enter(std::shared_ptr<ServerCall> call) {
  const MutexLock lock(mutex_);
  if (closed_) return false;
  calls_.insert(std::move(call));
  return true;
}

void CallSet::Leave(const std::shared_ptr<ServerCall>& call) {
  const MutexLock lock(mutex_);
  calls_.erase(call);
  if (calls_.empty()) emptied_.NotifyAll();
}

uint64_t CallSet::BeginAnswer(const std::shared_ptr<ServerCall>& call) {
  uint64_t answer = 0;
  std::shared_ptr<ServerCall> oldest;
  {
    const MutexLock lock(mutex_);
    answer = ++last_answer_;
    ++answers_;
    unread_.emplace(answer, call);
    if (unread_.size() > most_answers_) oldest = unread_.extract(unread_.begin()).mapped();
  }
  if (oldest) oldest->BreakOff();
  return answer;
}

void CallSet::EndAnswer(uint64_t answer) {
  const MutexLock lock(mutex_);
  --answers_;
  unread_.erase(answer);
}

bool CallSet::Crowded() const {
  const MutexLock lock(mutex_);
  return answers_ > most_answers_;
}

void CallSet::Close(const Status& why) {
  std::vector<std::shared_ptr<ServerCall>> calls;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    calls.assign(calls_.begin(), calls_.end());
  }
  for (const std::shared_ptr<ServerCall>& call : calls) call->Abort(why);
}

void CallSet::WaitUntilEmpty() {
  const MutexLock lock(mutex_);
  while (!calls_.empty()) emptied_.Wait(mutex_);
}

}  // namespace onecopy::rpc
