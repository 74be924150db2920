#include "client/lib/session/registered_memory.h"

#include <tuple>

#include "client/lib/calls/wire.h"
#include "client/lib/session/connection.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::client {

Result<BufferInfo> RegisteredMemory::Register(Session& session) {
  const MutexLock registering(registering_);
  if (retired_) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable, "the memory was closed");
  }
  return Ask(session);
}

Result<BufferInfo> RegisteredMemory::Ask(Session& session) {
  if (unanswered_.lock().get() != &session) request_id_ = os::RandomHex(16);
  v1::RegisterBufferRequest request;
  request.set_name(name_);
  request.set_bytes(bytes_);
  request.set_request_id(request_id_);
  Result<BufferInfo> info = RegisterAs(session, std::move(request));
  unanswered_.reset();
  if (!info.ok()) {
    if (MayBeCarriedOut(info.status())) unanswered_ = session.weak_from_this();
    return info;
  }
  session_ = session.weak_from_this();
  const MutexLock lock(mutex_);
  info_ = *info;
  return info;
}

BufferInfo RegisteredMemory::info() const {
  const MutexLock lock(mutex_);
  return info_;
}

std::pair<BufferInfo, SessionRef> RegisteredMemory::Retire() {
  const MutexLock registering(registering_);
  retired_ = true;
  if (const SessionRef unanswered = unanswered_.lock(); unanswered != nullptr) {
    // Only its answer tells what is to be ended. Without one, the end of the session ends it.
    if (!unanswered->Ended()) {
      const TeardownLimit limit(unanswered->hopeless());
      static_cast<void>(Ask(*unanswered));
    }
    if (unanswered_.lock() != nullptr) {
      unanswered->NoteHopeless();
      GiveUp(*unanswered);
    }
  }
  return {info(), session_.lock()};
}

bool RegisteredMemory::retired() {
  const MutexLock registering(registering_);
  return retired_;
}

HostMemory::HostMemory(os::UniqueFd fd, os::Mapping mapping, std::string name)
    : RegisteredMemory(std::move(name), mapping.bytes()),
      fd_(std::move(fd)),
      mapping_(std::move(mapping)) {}

Result<BufferInfo> HostMemory::RegisterAs(Session& session, v1::RegisterBufferRequest request) {
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t handle, session.attach().PassDescriptor(fd_.get()));
  request.mutable_memfd()->set_fd_handle(handle);
  return RegisterIn(session, std::move(request));
}

Result<BufferInfo> RegisterFirst(Connection& connection,
                                 const std::shared_ptr<RegisteredMemory>& memory) {
  ONECOPY_ASSIGN_OR_RETURN(const SessionRef session, connection.Current());
  Result<BufferInfo> info = memory->Register(*session);
  if (!info.ok()) {
    // Its owner frees the memory now, and the daemon may have carried it out all the same.
    const TeardownLimit limit(false);
    const auto [last, registered_in] = memory->Retire();
    if (registered_in != nullptr) static_cast<void>(EndIn(*registered_in, last.id, true));
    return connection.Explain(*session, info.status());
  }
  connection.registrations().Add(*info, session->number(), memory);
  return info;
}

Status EndRegistration(Connection& connection, RegisteredMemory& memory, BufferInfo* last) {
  ONECOPY_RETURN_IF_ERROR(connection.CheckProcess());
  // Before the connection may meet a new daemon, with which nothing would end it.
  // Its session need not be the connection's: while that attaches again, it is the next one.
  SessionRef session;
  const std::string before = memory.info().id;
  std::tie(*last, session) = memory.Retire();
  for (const std::string& id : {before, last->id}) {
    if (!id.empty()) connection.registrations().Remove(id);
  }
  return session ? EndIn(*session, last->id, true) : OkStatus();
}

Status EndIn(Session& session, const std::string& name, bool force) {
  Status done;
  if (!session.Ended()) {  // else it went with that
    done = session.EndBuffer(name, force);
    if (done.code() == Code::kFailedPrecondition) return done;  // it is in use
    if (session.EndedBy(done) || done.reason() == reasons::kBufferNotFound) done = OkStatus();
  }
  // Nor may a daemon that has gone have left orders for memory that its owner is about to free.
  session.own_memory().RemoveBuffer(name);
  return done;
}

bool MayBeCarriedOut(const Status& failure) {
  return failure.code() == Code::kDeadlineExceeded || failure.code() == Code::kUnavailable ||
         failure.code() == Code::kCancelled;
}

void Complete(const Session& session, v1::RegisterBufferRequest& request) {
  if (request.request_id().empty()) request.set_request_id(os::RandomHex(16));
  request.set_keep_arrivals(session.keep_arrivals());
}

Result<BufferInfo> RegisterIn(Session& session, v1::RegisterBufferRequest request) {
  Complete(session, request);
  ONECOPY_ASSIGN_OR_RETURN(
      const v1::Buffer buffer,
      session.Call(&v1::BufferService::Stub::RegisterBuffer, request, Patience::kWorking));
  return Read(buffer);
}

Result<BufferInfo> RegisterOwnIn(Session& session, uint64_t region,
                                 v1::RegisterBufferRequest request) {
  request.mutable_process()->set_region(region);
  Result<BufferInfo> buffer = RegisterIn(session, std::move(request));
  if (buffer.ok() || !MayBeCarriedOut(buffer.status())) SettleOwn(session, region, buffer);
  return buffer;
}

void SettleOwn(Session& session, uint64_t region, const Result<BufferInfo>& buffer) {
  if (buffer.ok()) {
    session.own_memory().SetBuffer(region, *buffer);
  } else {
    session.own_memory().Remove(region);
  }
}

}  // namespace onecopy::client
