// The calls of one server: what waits to be called included.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "transport/core/status.h"

namespace onecopy::rpc {

// One call, from waiting for it to the last of its operations. Any thread.
class ServerCall {
 public:
  virtual ~ServerCall() = default;
  // Ends the call with this failure, unless its answer is on its way already; a call that has not
  // come yet is answered so when it does.
  virtual void Abort(const Status& why) = 0;
};

// Any thread. A server may shut its completion queue down once the set is closed and empty: nothing
// then starts an operation on it any more.
class CallSet {
 public:
  // False once closed: then the call must not begin.
  [[nodiscard]] bool Enter(std::shared_ptr<ServerCall> call);
  // The call starts no operation any more. The set lets go of it.
  void Leave(const std::shared_ptr<ServerCall>& call);

  // Takes no more calls, and aborts those that there are.
  void Close(const Status& why);
  void WaitUntilEmpty();

 private:
  std::mutex mutex_;
  std::condition_variable emptied_;
  std::unordered_set<std::shared_ptr<ServerCall>> calls_;  // guarded by mutex_
  bool closed_ = false;                                    // guarded by mutex_
};

}  // namespace onecopy::rpc
