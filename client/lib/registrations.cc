#include "client/lib/registrations.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "client/lib/wire.h"
#include "onecopy/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::client {
namespace {

bool Named(const BufferInfo& info, const std::string& name) {
  return info.name == name || info.id == name;
}

Status WentWithItsSession() {
  return {Code::kUnavailable, reasons::kSessionLost,
          "it was registered with a daemon that has ended",
          "register the memory again, if it is still there"};
}

}  // namespace

void Complete(const Session& session, v1::RegisterBufferRequest& request) {
  request.set_request_id(os::RandomHex(16));
  request.set_keep_arrivals(session.keep_arrivals());
}

Result<BufferInfo> RegisterIn(Session& session, v1::RegisterBufferRequest request) {
  Complete(session, request);
  ONECOPY_ASSIGN_OR_RETURN(
      const v1::Buffer buffer,
      session.Call(&v1::BufferService::Stub::RegisterBuffer, request, Patience::kUnlimited));
  return Read(buffer);
}

HostMemory::HostMemory(os::UniqueFd fd, os::Mapping mapping, std::string name)
    : fd_(std::move(fd)), mapping_(std::move(mapping)), name_(std::move(name)) {}

Result<BufferInfo> HostMemory::Register(Session& session) {
  const MutexLock registering(registering_);
  if (retired_) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable, "the HostBuffer was closed");
  }
  v1::RegisterBufferRequest request;
  request.set_name(name_);
  request.set_bytes(mapping_.bytes());
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t handle, session.attach().PassDescriptor(fd_.get()));
  request.mutable_memfd()->set_fd_handle(handle);
  ONECOPY_ASSIGN_OR_RETURN(BufferInfo info, RegisterIn(session, std::move(request)));
  session_ = session.number();
  const MutexLock lock(mutex_);
  info_ = info;
  return info;
}

BufferInfo HostMemory::info() const {
  const MutexLock lock(mutex_);
  return info_;
}

std::pair<BufferInfo, uint64_t> HostMemory::Retire() {
  const MutexLock registering(registering_);
  retired_ = true;
  return {info(), session_};
}

bool HostMemory::retired() {
  const MutexLock registering(registering_);
  return retired_;
}

void Registrations::Add(const BufferInfo& info, uint64_t session,
                        std::weak_ptr<HostMemory> memory) {
  const MutexLock lock(mutex_);
  Entry entry{info, std::move(memory)};
  if (session != number_) return Lose(std::move(entry), WentWithItsSession());
  lost_.erase(info.name);
  entries_[info.id] = std::move(entry);
}

void Registrations::Remove(const std::string& name) {
  const MutexLock lock(mutex_);
  if (entries_.erase(name) == 0) {
    std::erase_if(entries_, [&](const auto& entry) { return Named(entry.second.info, name); });
  }
  for (auto found = FindLost(name); found != lost_.end(); found = FindLost(name)) {
    lost_.erase(found);
  }
}

void Registrations::Move(Session& session) {
  const MutexLock restoring(restoring_);
  std::vector<Entry> before;
  {
    const MutexLock lock(mutex_);
    for (auto& [id, entry] : std::exchange(entries_, {})) before.push_back(std::move(entry));
    for (auto lost = lost_.begin(); lost != lost_.end();) {
      const bool again = !lost->second.memory.expired();
      if (again) before.push_back({lost->second.told.was, lost->second.memory});
      lost = again ? lost_.erase(lost) : std::next(lost);
    }
    number_ = session.number();
    restored_.clear();
  }
  for (Entry& entry : before) RegisterAgain(session, std::move(entry));
}

void Registrations::Restore(Session& session, const std::vector<std::string>& names) {
  const MutexLock restoring(restoring_);
  for (const std::string& name : names) {
    Entry entry;
    {
      const MutexLock lock(mutex_);
      if (session.number() != number_) return;
      const auto found = FindLost(name);
      if (found == lost_.end() || found->second.memory.expired()) continue;
      entry = {found->second.told.was, found->second.memory};
      lost_.erase(found);
    }
    RegisterAgain(session, std::move(entry));
  }
}

void Registrations::RegisterAgain(Session& session, Entry entry) {
  Status why = WentWithItsSession();
  if (const auto memory = entry.memory.lock()) {
    Result<BufferInfo> now = memory->Register(session);
    if (now.ok()) {
      Add(*now, session.number(), memory);
      if (memory->retired()) return Remove(now->id);
      const MutexLock lock(mutex_);
      restored_.push_back({std::move(entry.info), *std::move(now)});
      return;
    }
    if (memory->retired()) return;
    why = now.status();
  }
  const MutexLock lock(mutex_);
  Lose(std::move(entry), std::move(why));
}

void Registrations::Lose(Entry entry, Status why) {
  const std::string name = entry.info.name;
  lost_.emplace(name, Lost{{std::move(entry.info), std::move(why)}, std::move(entry.memory)});
}

Registrations::LostByName::const_iterator Registrations::FindLost(const std::string& name) const {
  if (const auto found = lost_.find(name); found != lost_.end()) return found;
  return std::find_if(lost_.begin(), lost_.end(),
                      [&](const auto& lost) { return lost.second.told.was.id == name; });
}

SessionInfo Registrations::info() const {
  const MutexLock lock(mutex_);
  SessionInfo info{number_, restored_, {}};
  for (const auto& [name, lost] : lost_) info.lost.push_back(lost.told);
  return info;
}

Status Registrations::Explain(Status failure, const std::vector<std::string>& names) const {
  if (failure.reason() != reasons::kBufferNotFound) return failure;
  const MutexLock lock(mutex_);
  for (const std::string& name : names) {
    if (const auto found = FindLost(name); found != lost_.end()) {
      const LostBuffer& lost = found->second.told;
      return {Code::kNotFound, reasons::kBufferLost,
              "buffer \"" + lost.was.name +
                  "\" went with a session that has ended: " + lost.why.message(),
              found->second.memory.expired() ? "register the memory again, if it is still there"
                                             : lost.why.remedy()};
    }
    const auto known = [&](const auto& buffer) { return Named(buffer.was, name); };
    if (const auto found = std::find_if(restored_.begin(), restored_.end(), known);
        found != restored_.end()) {
      return {Code::kNotFound, reasons::kBufferLost,
              "buffer " + name + " went with a session that has ended, and is now " +
                  found->now.node + ":" + found->now.name + ", id " + found->now.id,
              "ask HostBuffer::endpoint() for it anew"};
    }
  }
  return failure;
}

}  // namespace onecopy::client
