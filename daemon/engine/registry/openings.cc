#include "daemon/engine/registry/openings.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/context.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

Status NotNeeded() {
  return {Code::kAborted, reasons::kCancelled, "the route is no longer needed"};
}

}  // namespace

Result<uint64_t> Openings::Begin(Opening opening) {
  if (context_.draining) {
    return context_.Draining();
  }
  ONECOPY_ASSIGN_OR_RETURN(
      Ledger::Charge charge,
      context_.ledger.Take(Charged::kOpenings, WholeNode(opening.peer), false));
  uint64_t number = os::RandomNumber();
  while (number == 0 || entries_.contains(number)) ++number;
  Entry& entry = entries_[number];
  entry.opening = std::move(opening);
  entry.charge = std::move(charge);
  return number;
}

Status Openings::Ready(uint64_t number, Close close) {
  const auto found = entries_.find(number);
  if (found == entries_.end()) return NotNeeded();  // the engine ends
  Entry& entry = found->second;
  entry.close = std::move(close);
  const Status why = std::exchange(entry.closing, OkStatus());
  if (!why.ok()) CloseOne(number, why);
  return why;
}

void Openings::Forget(uint64_t number) {
  auto node = entries_.extract(number);
  if (node.empty()) return;
  for (Task& closed : node.mapped().closed) closed();
  const auto over = std::stable_partition(waiting_.begin(), waiting_.end(),
                                          [this](const Waiting& one) { return Any(one.which); });
  std::vector<Waiting> told(std::make_move_iterator(over), std::make_move_iterator(waiting_.end()));
  waiting_.erase(over, waiting_.end());
  for (Waiting& one : told) one.then();
}

// One that is not ready yet is closed when it is.
void Openings::CloseOne(uint64_t number, const Status& why) {
  Entry& entry = entries_.at(number);
  if (!entry.closing.ok()) return;
  entry.closing = why;
  if (entry.close) entry.close(why, [this, number] { Forget(number); });
}

void Openings::CloseThose(const Which& which, const Status& why) {
  std::vector<uint64_t> those;
  for (const auto& [number, entry] : entries_) {
    if (which(entry.opening)) those.push_back(number);
  }
  for (const uint64_t number : those) {
    if (entries_.contains(number)) CloseOne(number, why);
  }
}

void Openings::End(uint64_t number, const Status& why) {
  if (entries_.contains(number)) CloseOne(number, why);
}

void Openings::CloseOf(const std::string& peer, uint64_t number, Task closed) {
  const auto found = entries_.find(number);
  if (found == entries_.end() || found->second.opening.peer != peer) return closed();
  found->second.closed.push_back(std::move(closed));
  CloseOne(number, NotNeeded());
}

void Openings::CloseFor(const std::string& peer, const TransferId& id, Task done) {
  std::vector<uint64_t> those;
  for (const auto& [number, entry] : entries_) {
    if (entry.opening.peer == peer && entry.opening.id == id) those.push_back(number);
  }
  if (those.empty()) return done();
  // A peer may have several of one id.
  auto left = std::make_shared<std::pair<size_t, Task>>(those.size(), std::move(done));
  for (const uint64_t number : those) {
    entries_.at(number).closed.emplace_back([left] {
      if (--left->first == 0) left->second();
    });
  }
  for (const uint64_t number : those) {
    if (entries_.contains(number)) CloseOne(number, NotNeeded());
  }
}

void Openings::DropBuffer(BufferId buffer, const Status& why) {
  CloseThose([&](const Opening& opening) { return opening.buffer == buffer; }, why);
}

void Openings::DropGrant(const GrantId& grant, const Status& why) {
  CloseThose([&](const Opening& opening) { return opening.grant == grant; }, why);
}

void Openings::DropPeer(const std::string& node, const Status& why) {
  CloseThose([&](const Opening& opening) { return opening.peer == node; }, why);
}

void Openings::DropPushes(
    const std::function<bool(const Owner& user, const std::string& peer)>& which,
    const Status& why) {
  CloseThose(
      [&](const Opening& opening) {
        return opening.pushes && which(*opening.pushes, opening.peer);
      },
      why);
}

void Openings::CloseAll(const Status& why) {
  CloseThose([](const Opening&) { return true; }, why);
}

bool Openings::Any(const Which& which) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const auto& entry) { return which(entry.second.opening); });
}

void Openings::AwaitNone(Which which, Task then) {
  if (!Any(which)) return then();
  waiting_.push_back({std::move(which), std::move(then)});
}

void Openings::WhenReleased(BufferId buffer, Task then) {
  AwaitNone([buffer](const Opening& opening) { return opening.buffer == buffer; }, std::move(then));
}

void Openings::WhenReleased(const GrantId& grant, Task then) {
  AwaitNone([grant](const Opening& opening) { return opening.grant == grant; }, std::move(then));
}

void Openings::Clear() {
  entries_.clear();
  waiting_.clear();
}

}  // namespace onecopy::engine
