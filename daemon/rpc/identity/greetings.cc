#include "daemon/rpc/identity/greetings.h"

#include <utility>

#include "daemon/rpc/identity/peer_address.h"

namespace onecopy::rpc {

void Greetings::Await(const os::HostPort& from, Task greeted) {
  const MutexLock lock(mutex_);
  waiting_[from.ToString()] = std::move(greeted);
  size_ = waiting_.size();
}

void Greetings::Forget(const os::HostPort& from) {
  const MutexLock lock(mutex_);
  waiting_.erase(from.ToString());
  size_ = waiting_.size();
}

void Greetings::Called(const std::string& from) {
  if (size_ == 0) return;
  const Result<os::HostPort> address = ParsePeerUri(from);
  if (!address.ok()) return;
  Task greeted;
  {
    const MutexLock lock(mutex_);
    auto node = waiting_.extract(address->ToString());
    size_ = waiting_.size();
    if (node.empty()) return;
    greeted = std::move(node.mapped());
  }
  greeted();
}

}  // namespace onecopy::rpc
