#include "client/nixl/outbox.h"

#include "client/nixl/outcome.h"

namespace onecopy::nixl {

Status Outbox::Send(const std::string& agent, const std::string& text) {
  std::shared_ptr<Letter> letter;
  {
    const MutexLock lock(mutex_);
    letter = Put(agents_[agent], text, true);
  }
  Work(agent, letter.get());
  return letter->outcome;
}

Status Outbox::Post(const std::string& agent, std::string text) {
  {
    const MutexLock lock(mutex_);
    Agent& to = agents_[agent];
    while (to.bytes > 0 && to.bytes + text.size() > kMostBytes) changed_.Wait(mutex_);
    if (!to.failure.ok()) return std::exchange(to.failure, OkStatus());
    Put(to, std::move(text), false);
    if (to.busy || std::exchange(to.scheduled, true)) return OkStatus();
  }
  const Status begun = workers_.Run([this, agent] { Work(agent, nullptr); });
  if (!begun.ok()) Work(agent, nullptr);  // without threads: this one
  return OkStatus();
}

std::shared_ptr<Outbox::Letter> Outbox::Put(Agent& agent, std::string text, bool awaited) {
  agent.bytes += text.size();
  agent.waiting.push_back(std::make_shared<Letter>(Letter{std::move(text), awaited}));
  return agent.waiting.back();
}

void Outbox::Work(const std::string& name, const Letter* awaited) {
  MutexLock lock(mutex_);
  Agent& to = agents_[name];
  if (awaited == nullptr) to.scheduled = false;
  while (!to.waiting.empty() || (awaited != nullptr && !awaited->done)) {
    if (to.busy) {
      if (awaited == nullptr || awaited->done) return;  // who is busy goes on with the rest
      changed_.Wait(mutex_);
      continue;
    }
    to.busy = true;
    const std::shared_ptr<Letter> letter = std::move(to.waiting.front());
    to.waiting.pop_front();
    lock.Unlock();
    Status outcome = deliver_(name, letter->text);
    lock.Lock();
    to.busy = false;
    to.bytes -= letter->text.size();
    if (!letter->awaited && !outcome.ok()) {
      static_cast<void>(Say("a notification for agent " + name, outcome));
      if (to.failure.ok()) to.failure = outcome;
    }
    letter->outcome = std::move(outcome);
    letter->done = true;
    changed_.NotifyAll();
  }
}

}  // namespace onecopy::nixl
