#include "client/lib/session/registrations.h"

#include <algorithm>
#include <utility>

#include "client/lib/calls/call_limit.h"
#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

bool Named(const BufferInfo& info, const std::string& name) {
  return info.name == name || info.id == name;
}

Status WentWithItsSession() {
  return {Code::kUnavailable, reasons::kSessionLost,
          "it was registered with a daemon that has since ended",
          "register the memory again, if it still exists"};
}

}  // namespace

void Registrations::Add(const BufferInfo& info, uint64_t session,
                        std::weak_ptr<RegisteredMemory> memory) {
  const MutexLock lock(mutex_);
  Entry entry{info, std::move(memory)};
  if (session != number_) {
    // Move has been here meanwhile, and did not see it.
    const bool left = !entry.memory.expired();
    return Lose(std::move(entry), WentWithItsSession(), left);
  }
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
  {
    const MutexLock lock(mutex_);
    number_ = session.number();
    restored_.clear();
    for (auto& [id, entry] : std::exchange(entries_, {})) {
      Lose(std::move(entry), WentWithItsSession());
    }
    for (auto& [name, lost] : lost_) {
      lost.left = !lost.memory.expired();
      if (lost.left) left_ = true;
    }
  }
  Finish(session);
}

void Registrations::Finish(Session& session) {
  if (!left_) return;
  const Turn::Held turn(restoring_);
  while (turn && !CallLimit::HasPassed()) {
    std::optional<Entry> entry;
    {
      const MutexLock lock(mutex_);
      if (session.number() != number_) return;
      entry = TakeLeft();
      if (!entry) {
        left_ = false;
        return;
      }
    }
    RegisterAgain(session, *std::move(entry));
  }
}

std::optional<Registrations::Entry> Registrations::TakeLeft() {
  const auto found =
      std::find_if(lost_.begin(), lost_.end(), [](const auto& lost) { return lost.second.left; });
  if (found == lost_.end()) return std::nullopt;
  Entry entry{found->second.told.was, found->second.memory};
  lost_.erase(found);
  return entry;
}

void Registrations::Restore(Session& session, const std::vector<std::string>& names) {
  const Turn::Held turn(restoring_);
  if (!turn) return;
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
  bool left = false;
  if (const auto memory = entry.memory.lock()) {
    Result<BufferInfo> now = memory->Register(session);
    if (now.ok()) {
      Add(*now, session.number(), memory);
      if (memory->retired()) return Remove(now->id);
      const MutexLock lock(mutex_);
      if (session.number() == number_) {
        restored_.push_back({std::move(entry.info), *std::move(now)});
      }
      return;
    }
    if (memory->retired()) return;
    why = now.status();
    left = why.code() == Code::kDeadlineExceeded && CallLimit::HasPassed();
  }
  const MutexLock lock(mutex_);
  // Move has been here meanwhile, and did not see it.
  if (session.number() != number_) left = !entry.memory.expired();
  Lose(std::move(entry), std::move(why), left);
}

void Registrations::Lose(Entry entry, Status why, bool left) {
  const std::string name = entry.info.name;
  lost_.emplace(name, Lost{{std::move(entry.info), std::move(why)}, std::move(entry.memory), left});
  if (left) left_ = true;
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
                  "\" was removed with its session, which has ended: " + lost.why.message(),
              found->second.memory.expired() ? "register the memory again, if it still exists"
                                             : lost.why.remedy()};
    }
    const auto known = [&](const auto& buffer) { return Named(buffer.was, name); };
    if (const auto found = std::find_if(restored_.begin(), restored_.end(), known);
        found != restored_.end()) {
      return {Code::kNotFound, reasons::kBufferLost,
              "buffer " + name + " went with a session that has ended, and is now " +
                  found->now.node + ":" + found->now.name + ", id " + found->now.id,
              "call HostBuffer::endpoint() or Pool::endpoint() again"};
    }
  }
  return failure;
}

}  // namespace onecopy::client
