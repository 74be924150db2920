// The calls of one server: what waits to be called included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_set>

#include "onecopy/status.h"
#include "transport/core/base/mutex.h"

namespace onecopy::rpc {

// One call, from waiting for it to the last of its operations. Any thread.
class ServerCall {
 public:
  virtual ~ServerCall() = default;
  // Ends the call with this failure, unless its answer is on its way already; a call that has not
  // come yet is answered so when it does.
  virtual void Abort(const Status& why) = 0;
  // Has gRPC drop the answer that is on its way.
  virtual void BreakOff() = 0;
};

// Any thread. A server may shut its completion queue down once the set is closed and empty: nothing
// then starts an operation on it any more.
class CallSet {
 public:
  static constexpr size_t kMaxAnswers = 16'384;

  explicit CallSet(size_t most_answers = kMaxAnswers) : most_answers_(most_answers) {}

  // False once closed: then the call must not begin.
  [[nodiscard]] bool Enter(std::shared_ptr<ServerCall> call);
  // The call starts no operation any more. The set lets go of it.
  void Leave(const std::shared_ptr<ServerCall>& call);

  // A call's last answer is about to be sent; to be ended with the number that this gives, when it
  // has been sent or cannot be. Where so many wait to be read, the one that has waited longest has
  // its call broken off: its client does not read, while who has just asked may well do.
  uint64_t BeginAnswer(const std::shared_ptr<ServerCall>& call);
  void EndAnswer(uint64_t answer);
  // Whether breaking calls off does not help: gRPC keeps those of a connection that cannot be
  // written to until it can.
  bool Crowded() const;

  // Takes no more calls, and aborts those that there are.
  void Close(const Status& why);
  void WaitUntilEmpty();

 private:
  const size_t most_answers_;
  mutable Mutex mutex_;
  Condition emptied_;
  std::unordered_set<std::shared_ptr<ServerCall>> calls_ ONECOPY_GUARDED_BY(mutex_);
  bool closed_ ONECOPY_GUARDED_BY(mutex_) = false;
  // By the order in which they began; that were not broken off.
  std::map<uint64_t, std::shared_ptr<ServerCall>> unread_ ONECOPY_GUARDED_BY(mutex_);
  uint64_t last_answer_ ONECOPY_GUARDED_BY(mutex_) = 0;
  // Those of calls that were broken off included.
  size_t answers_ ONECOPY_GUARDED_BY(mutex_) = 0;
};

}  // namespace onecopy::rpc
