#include "daemon/engine/registry/openings.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/context.h"
#include "onecopy/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMaxOpenings = 65'536;
constexpr std::ptrdiff_t kMaxOpeningsOfPeer = 4096;

Status NotNeeded() {
  return {Code::kAborted, reasons::kCancelled, "the way is not needed any more"};
}

}  // namespace

Result<uint64_t> Openings::Begin(Opening opening) {
  if (context_.draining) {
    return Status(Code::kUnavailable, reasons::kDraining,
                  "node " + context_.node() + " is shutting down and takes no new transfers");
  }
  const auto of_peer = std::count_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry.second.opening.peer == opening.peer;
  });
  if (entries_.size() >= kMaxOpenings || of_peer >= kMaxOpeningsOfPeer) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  "node " + context_.node() + " keeps as many ranges open to others as it can");
  }
  uint64_t number = os::RandomNumber();
  while (number == 0 || entries_.contains(number)) ++number;
  entries_[number].opening = std::move(opening);
  return number;
}

Status Openings::Ready(uint64_t number, Close close) {
  Entry& entry = entries_.at(number);
  entry.close = std::move(close);
  const Status why = std::exchange(entry.closing, OkStatus());
  if (!why.ok()) CloseOne(number, why);
  return why;
}

void Openings::Forget(uint64_t number) {
  auto node = entries_.extract(number);
  if (node.empty()) return;
  for (Task& closed : node.mapped().closed) closed();
  const auto waiting = waiting_.find(node.mapped().opening.buffer);
  if (waiting == waiting_.end() || Uses(waiting->first)) return;
  auto tasks = waiting_.extract(waiting);
  for (Task& then : tasks.mapped()) then();
}

// One that is not ready yet is closed when it is.
void Openings::CloseOne(uint64_t number, const Status& why) {
  Entry& entry = entries_.at(number);
  if (!entry.closing.ok()) return;
  entry.closing = why;
  if (entry.close) entry.close(why, [this, number] { Forget(number); });
}

template <typename Which>
void Openings::CloseThose(const Which& which, const Status& why) {
  std::vector<uint64_t> those;
  for (const auto& [number, entry] : entries_) {
    if (which(entry.opening)) those.push_back(number);
  }
  for (const uint64_t number : those) {
    if (entries_.contains(number)) CloseOne(number, why);
  }
}

void Openings::CloseOf(const std::string& peer, uint64_t number) {
  const auto found = entries_.find(number);
  if (found != entries_.end() && found->second.opening.peer == peer) CloseOne(number, NotNeeded());
}

void Openings::CloseFor(const std::string& peer, const TransferId& id, Task done) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry.second.opening.peer == peer && entry.second.opening.id == id;
  });
  if (found == entries_.end()) return done();
  found->second.closed.push_back(std::move(done));
  CloseOne(found->first, NotNeeded());
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

void Openings::CloseAll(const Status& why) {
  CloseThose([](const Opening&) { return true; }, why);
}

bool Openings::Uses(BufferId buffer) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const auto& entry) { return entry.second.opening.buffer == buffer; });
}

void Openings::WhenReleased(BufferId buffer, Task then) {
  if (!Uses(buffer)) return then();
  waiting_[buffer].push_back(std::move(then));
}

void Openings::Clear() {
  entries_.clear();
  waiting_.clear();
}

}  // namespace onecopy::engine
