// Memory that the library registers of its own accord, and again with each session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/lib/session/session.h"
#include "onecopy/buffer.h"
#include "transport/core/base/mutex.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::client {

class Connection;

// What there is, and what the daemon knows of it now. Thread-safe.
class RegisteredMemory {
 public:
  virtual ~RegisteredMemory() = default;
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  // Makes it known to the daemon of this session, again where it was before. FAILED_PRECONDITION
  // once retired. If it was not answered in time, the next Register in the same session repeats the
  // same request, which the daemon carries out once.
  Result<BufferInfo> Register(Session& session);
  BufferInfo info() const;
  // As it was last registered, and in which session; null: that one is gone. No other session
  // registers it any more. Waits for one that is about to, and for the answer to one that was not
  // answered in time, as long as Session::EndBuffer does.
  std::pair<BufferInfo, SessionRef> Retire();
  bool retired();

 protected:
  // `name`: as the caller chose it; empty: the daemon chooses.
  RegisteredMemory(std::string name, uint64_t bytes) : name_(std::move(name)), bytes_(bytes) {}

 private:
  // Completes the request, which has name, size and id, and makes it in that session. One with the
  // id of an unanswered request asks for the same as that.
  virtual Result<BufferInfo> RegisterAs(Session& session, v1::RegisterBufferRequest request) = 0;
  // A request in that session is given up without an answer: no thread of this library touches the
  // memory for it any more.
  virtual void GiveUp(Session& /*session*/) {}
  Result<BufferInfo> Ask(Session& session) ONECOPY_REQUIRES(registering_);

  const std::string name_;
  const uint64_t bytes_;
  Mutex registering_;  // before mutex_; while the daemon is asked
  bool retired_ ONECOPY_GUARDED_BY(registering_) = false;
  std::weak_ptr<Session> session_ ONECOPY_GUARDED_BY(registering_);
  // The session whose daemon may carry out the last request, of which that is not known.
  std::weak_ptr<Session> unanswered_ ONECOPY_GUARDED_BY(registering_);
  std::string request_id_ ONECOPY_GUARDED_BY(registering_);
  mutable Mutex mutex_;
  BufferInfo info_ ONECOPY_GUARDED_BY(mutex_);
};

// A memory file that this process and the daemon both map.
class HostMemory final : public RegisteredMemory {
 public:
  HostMemory(os::UniqueFd fd, os::Mapping mapping, std::string name);

  std::byte* data() const { return mapping_.data(); }

 private:
  Result<BufferInfo> RegisterAs(Session& session, v1::RegisterBufferRequest request) override;

  const os::UniqueFd fd_;
  const os::Mapping mapping_;
};

// For the first time, in the connection's session; the next sessions register it again for as
// long as a reference to it exists. If it fails, the memory is retired, which may take 5 s more, or
// one after the thread's CallLimit: nothing uses it afterwards.
Result<BufferInfo> RegisterFirst(Connection& connection,
                                 const std::shared_ptr<RegisteredMemory>& memory);

// Blocks: cancels the transfers that use it, waits until they no longer use it, and
// ends the registration for good. The memory may go afterwards, also where this fails, for which
// the daemon must have gone. As it was last registered is in `last`.
Status EndRegistration(Connection& connection, RegisteredMemory& memory, BufferInfo* last);
// Ends a registration of that session: at most 5 s. No thread of this library touches the memory
// any more then, also where the daemon has not answered, which ends it with the session at the
// latest. FAILED_PRECONDITION (BUFFER_IN_USE) without `force`: then it stays.
Status EndIn(Session& session, const std::string& name, bool force);

// Whether a request that failed so may have reached the daemon, and may still be carried out.
bool MayBeCarriedOut(const Status& failure);
// Fills in what every such request has: its owner, and an id that no earlier request had, unless it
// has one.
void Complete(const Session& session, v1::RegisterBufferRequest& request);
// One registration, whose descriptors were passed in the same session.
Result<BufferInfo> RegisterIn(Session& session, v1::RegisterBufferRequest request);
// The same of what the session's own threads copy, under the number that they know it by; if it
// fails, they forget it, unless it may still be carried out.
Result<BufferInfo> RegisterOwnIn(Session& session, uint64_t region,
                                 v1::RegisterBufferRequest request);
// What came of it, for those threads.
void SettleOwn(Session& session, uint64_t region, const Result<BufferInfo>& buffer);

}  // namespace onecopy::client
