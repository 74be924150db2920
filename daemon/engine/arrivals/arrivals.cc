#include "daemon/engine/arrivals/arrivals.h"

#include <algorithm>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// Of one answer to a watch: what fills a connection well, and fits into a message by far.
constexpr size_t kMaxTold = 512;
constexpr size_t kMaxToldBytes = 256 * 1024;

}  // namespace

Arrivals::Arrivals(Context& context, Buffers& buffers)
    : context_(context),
      buffers_(buffers),
      per_buffer_(context.options.limits.arrivals_per_buffer) {}

Result<Arrivals::Room> Arrivals::TakeRoom(const Buffer& buffer, size_t most, size_t message_bytes) {
  Box& box = boxes_[buffer.id];
  if (*box.taken >= most) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  "buffer \"" + buffer.name + "\" on node " + context_.node() + " has " +
                      std::to_string(*box.taken) + " arrivals that its owner " +
                      buffer.owner.ToString() + " has not acknowledged",
                  "try again after the owner has acknowledged some, or raise [limits] "
                  "arrivals_per_buffer there, which is " +
                      std::to_string(per_buffer_));
  }
  Room room;
  // The owner pays, like everybody, although another user mostly writes. For users of another node
  // that node pays: there is only its word for which user it is.
  const Owner payer = PayerAt(context_.node(), buffer.owner.node, buffer.owner);
  ONECOPY_ASSIGN_OR_RETURN(room.charge_,
                           context_.ledger.Take(Charged::kArrivals, payer, false, message_bytes));
  room.place_ = std::make_unique<Room::Place>(box.taken);
  return room;
}

Result<Arrivals::Room> Arrivals::Reserve(const Buffer& buffer, size_t message_bytes) {
  if (message_bytes > 0 && !buffer.keep_arrivals && WatchersOf(buffer).empty()) {
    return Status(
        Code::kFailedPrecondition, reasons::kNotWatched,
        "there is no watcher of buffer \"" + buffer.name + "\" on node " + context_.node() +
            ", and the buffer does not keep arrivals: the message would be lost",
        "start a watch first (onecopy buffer watch), or create the buffer with --keep-arrivals");
  }
  return TakeRoom(buffer, per_buffer_, message_bytes);
}

bool Arrivals::Deliver(const Buffer& buffer, Arrival arrival, Room room) {
  const std::vector<Watcher*> watchers = WatchersOf(buffer);
  const auto known = boxes_.find(buffer.id);
  const bool wanted = buffer.keep_arrivals || !watchers.empty();
  if (!wanted) {
    if (known != boxes_.end()) ++known->second.sequence;
    return false;
  }
  Box& box = boxes_[buffer.id];
  arrival.buffer = buffer.name;
  arrival.buffer_id = buffer.id.ToString();
  arrival.sequence = ++box.sequence;
  arrival.time = std::chrono::system_clock::now();
  if (!room) {
    // The other half is for those that must not be left out.
    Result<Room> found = TakeRoom(buffer, per_buffer_ - per_buffer_ / 2, 0);
    if (!found.ok()) {
      for (Watcher* watcher : watchers) {
        ++watcher->missed;
        watcher->news();
      }
      return false;
    }
    room = std::move(*found);
  }
  auto item = std::make_shared<Item>();
  item->arrival = std::move(arrival);
  item->buffer = buffer.id;
  item->number = next_item_++;
  item->room = std::move(room);
  if (watchers.empty()) box.kept.push_back(item);
  for (Watcher* watcher : watchers) Append(item, *watcher);
  for (Watcher* watcher : watchers) watcher->news();
  return true;
}

void Arrivals::Append(const ItemRef& item, Watcher& watcher) {
  item->told.push_back(watcher.id);
  watcher.untold.push_back(item);
}

bool Arrivals::IdLess(const Watcher* a, const Watcher* b) { return a->id < b->id; }

bool Arrivals::Contains(const std::vector<Watcher*>& watchers, WatchId id) {
  const auto place = std::lower_bound(watchers.begin(), watchers.end(), id,
                                      [](const Watcher* one, WatchId id) { return one->id < id; });
  return place != watchers.end() && (*place)->id == id;
}

std::vector<Arrivals::Watcher*> Arrivals::WatchersOf(const Buffer& buffer) {
  std::vector<Watcher*> watchers;
  const auto add = [&](WatchId id) {
    Watcher& watcher = watchers_.at(id);
    if (watcher.end.ok()) watchers.push_back(&watcher);
  };
  if (const auto box = boxes_.find(buffer.id); box != boxes_.end()) {
    for (const WatchId id : box->second.watches) add(id);
  }
  if (!buffer.registered) return watchers;
  if (const auto of = by_session_.find(buffer.session); of != by_session_.end()) {
    for (const WatchId id : of->second) {
      if (!watchers_.at(id).buffer) add(id);
    }
  }
  std::sort(watchers.begin(), watchers.end(), IdLess);
  return watchers;
}

Result<Arrivals::WatchId> Arrivals::Watch(const Principal& who, std::optional<BufferId> buffer,
                                          std::function<void()> news) {
  ONECOPY_ASSIGN_OR_RETURN(Ledger::Charge charge, context_.ledger.Take(Charged::kWatches, who));
  const WatchId id = next_watch_++;
  Watcher& watcher = watchers_[id];
  watcher.id = id;
  watcher.session = who.session;
  watcher.buffer = buffer;
  watcher.news = std::move(news);
  watcher.charge = std::move(charge);
  by_session_[who.session].insert(id);
  if (buffer) {
    boxes_[*buffer].watches.insert(id);
    TakeKept(*buffer, watcher);
  } else {
    for (const BufferId registered : buffers_.RegisteredBy(who.session)) {
      TakeKept(registered, watcher);
    }
  }
  return id;
}

void Arrivals::TakeKept(BufferId buffer, Watcher& watcher) {
  const auto box = boxes_.find(buffer);
  if (box == boxes_.end()) return;
  for (const ItemRef& item : std::exchange(box->second.kept, {})) Append(item, watcher);
}

ArrivalsTold Arrivals::Take(WatchId watch) {
  ArrivalsTold told;
  const auto found = watchers_.find(watch);
  if (found == watchers_.end()) return told;
  Watcher& watcher = found->second;
  told.batch.missed = std::exchange(watcher.missed, 0);
  size_t bytes = 0;
  while (!watcher.untold.empty() && told.batch.arrivals.size() < kMaxTold &&
         bytes < kMaxToldBytes) {
    const ItemRef& item = watcher.untold.front();
    bytes += item->arrival.message.size();
    told.batch.arrivals.push_back(item->arrival);
    watcher.unacknowledged.push_back(item);
    watcher.untold.pop_front();
  }
  if (watcher.untold.empty()) told.end = watcher.end;
  return told;
}

Status Arrivals::Acknowledge(const Principal& who, WatchId watch, uint64_t count) {
  const auto found = watchers_.find(watch);
  if (found == watchers_.end() || found->second.session != who.session) {
    return {Code::kNotFound, reasons::kWatchNotFound,
            "this session has no watch " + std::to_string(watch) + " on node " + context_.node(),
            "start the watch again: it repeats what the buffer keeps"};
  }
  Watcher& watcher = found->second;
  const uint64_t told = watcher.acknowledged + watcher.unacknowledged.size();
  if (count > told) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "watch " + std::to_string(watch) + " has reported " + std::to_string(told) +
                " arrivals, and " + std::to_string(count) + " are acknowledged"};
  }
  // One that comes late is not an error.
  for (; watcher.acknowledged < count; ++watcher.acknowledged) watcher.unacknowledged.pop_front();
  return OkStatus();
}

// What several of them have goes back once. First what has come last, so that each finds its place
// before what followed it.
void Arrivals::GiveBack(const std::vector<Watcher*>& ending) {
  std::vector<ItemRef> items;
  for (Watcher* watcher : ending) {
    for (std::deque<ItemRef>* had : {&watcher->unacknowledged, &watcher->untold}) {
      for (ItemRef& item : *had) {
        if (!std::exchange(item->returning, true)) items.push_back(std::move(item));
      }
      had->clear();
    }
  }
  std::sort(items.begin(), items.end(),
            [](const ItemRef& a, const ItemRef& b) { return a->number > b->number; });
  std::map<BufferId, std::vector<Watcher*>> others_of;
  std::set<Watcher*> told;
  for (const ItemRef& item : items) {
    item->returning = false;
    const Buffer* buffer = buffers_.FindById(item->buffer);
    if (buffer == nullptr || !buffer->keep_arrivals || !buffer->removing.ok()) continue;
    const auto [place, added] = others_of.try_emplace(buffer->id);
    if (added) place->second = WatchersOf(*buffer);
    const std::vector<Watcher*>& others = place->second;
    // Watches that have ended are never asked for again.
    std::erase_if(item->told, [&](WatchId id) { return !Contains(others, id); });
    if (!item->told.empty()) continue;
    if (others.empty()) boxes_[buffer->id].kept.push_front(item);
    for (Watcher* other : others) {
      item->told.push_back(other->id);
      other->untold.push_front(item);
      told.insert(other);
    }
  }
  for (Watcher* watcher : told) watcher->news();
}

void Arrivals::Unwatch(WatchId watch) {
  const auto found = watchers_.find(watch);
  if (found == watchers_.end()) return;
  Watcher& watcher = found->second;
  // It is not among those that could be told instead.
  watcher.end = {Code::kCancelled, reasons::kCancelled, "the watch has ended"};
  GiveBack({&watcher});
  if (watcher.buffer) {
    const auto box = boxes_.find(*watcher.buffer);
    if (box != boxes_.end()) box->second.watches.erase(watch);
  }
  const auto of = by_session_.find(watcher.session);
  of->second.erase(watch);
  if (of->second.empty()) by_session_.erase(of);
  watchers_.erase(found);
}

void Arrivals::DropBuffer(BufferId buffer, const Status& why) {
  const auto box = boxes_.extract(buffer);
  if (box.empty()) return;
  for (const WatchId id : box.mapped().watches) {
    Watcher& watcher = watchers_.at(id);
    if (watcher.end.ok()) watcher.end = why;
    watcher.news();
  }
}

void Arrivals::EndSession(const SessionId& session) {
  const auto of = by_session_.find(session);
  if (of == by_session_.end()) return;
  std::vector<Watcher*> ending;
  for (const WatchId id : of->second) {
    ending.push_back(&watchers_.at(id));
    ending.back()->end = {Code::kUnauthenticated, reasons::kNoSession, "the session has ended"};
  }
  GiveBack(ending);
  for (Watcher* watcher : ending) watcher->news();
}

}  // namespace onecopy::engine
