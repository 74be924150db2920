#include "daemon/engine/open_ranges.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/buffers.h"
#include "daemon/engine/context.h"
#include "daemon/engine/registrations.h"
#include "daemon/engine/tickets.h"
#include "transport/core/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMostRanges = 65'536;
constexpr std::ptrdiff_t kMostOfReader = 4096;

Status Closed() {
  return {Code::kAborted, reasons::kCancelled, "the range was closed while it was being opened"};
}

}  // namespace

Status OpenRanges::CheckRoom(const std::string& caller) const {
  const auto of_caller = std::count_if(ranges_.begin(), ranges_.end(), [&](const auto& range) {
    return range.second->reader == caller;
  });
  if (ranges_.size() < kMostRanges && of_caller < kMostOfReader) return OkStatus();
  return {Code::kResourceExhausted, reasons::kQuota,
          "node " + parts_.context.node() + " keeps as many ranges open to others as it can"};
}

void OpenRanges::Open(const std::string& caller, const OpenRangeRequest& request,
                      Reply<OpenRangeReply> reply) {
  if (parts_.context.draining) {
    return reply(Status(Code::kUnavailable, reasons::kDraining,
                        "node " + parts_.context.node() + " is shutting down"));
  }
  if (Status full = CheckRoom(caller); !full.ok()) return reply(full);
  Result<Connections::Serving> serving =
      parts_.connections.FindAccepted(caller, request.connection);
  if (!serving.ok()) return reply(serving.status());
  Result<Ticket> ticket = parts_.tickets.Take(caller, request.ticket, request.id);
  if (!ticket.ok()) return reply(ticket.status());
  if (ticket->layout != nullptr) {
    return reply(Status(Code::kInvalidArgument, reasons::kBadArgument,
                        "several ranges are not opened for small transfers"));
  }
  const Buffer& buffer = *parts_.buffers.FindById(ticket->buffer);
  auto range = std::make_shared<Range>();
  range->reader = caller;
  range->buffer = ticket->buffer;
  range->grant = ticket->grant;
  range->serving = std::move(*serving);
  range->span = {buffer.region, ticket->range.offset, ticket->range.bytes};
  do {
    range->number = os::RandomNumber();
  } while (range->number == 0 || ranges_.contains(range->number));
  ranges_[range->number] = range;
  parts_.registrations.Ensure(range->serving.link, buffer.region,
                              buffer.registered ? buffer.name : std::string(),
                              [this, range, reply = std::move(reply)](const Status& known) mutable {
                                if (known.ok() && !range->closing) {
                                  return Expose(range, std::move(reply));
                                }
                                Forget(range);
                                reply(known.ok() ? Closed() : known);
                              });
}

void OpenRanges::Expose(const RangeRef& range, Reply<OpenRangeReply> reply) {
  range->serving.connection->Expose(
      range->span, [this, range, reply = std::move(reply)](Result<RemoteKey> key) mutable {
        parts_.context.loop.Post(
            [this, range, key = std::move(key), reply = std::move(reply)]() mutable {
              if (!key.ok()) {
                Forget(range);
                return reply(key.status());
              }
              range->key = *key;
              if (std::exchange(range->closing, false)) {
                CloseOne(range);
                return reply(Closed());
              }
              reply(OpenRangeReply{range->number, std::move(*key)});
            });
      });
}

void OpenRanges::Close(const std::string& caller, uint64_t number) {
  const auto found = ranges_.find(number);
  if (found == ranges_.end() || found->second->reader != caller) return;
  CloseOne(RangeRef(found->second));
}

// One that is still being opened is closed when it is.
void OpenRanges::CloseOne(const RangeRef& range) {
  if (std::exchange(range->closing, true) || !range->key) return;
  range->serving.connection->Withdraw(
      *range->key, [this, range] { parts_.context.loop.Post([this, range] { Forget(range); }); });
}

void OpenRanges::Forget(const RangeRef& range) {
  range->span.region.reset();
  ranges_.erase(range->number);
  const auto waiting = waiting_.find(range->buffer);
  if (waiting == waiting_.end()) return;
  const bool held = std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& other) {
    return other.second->buffer == range->buffer;
  });
  if (held) return;
  auto node = waiting_.extract(waiting);
  for (Task& then : node.mapped()) then();
}

template <typename Which>
void OpenRanges::CloseThose(const Which& which) {
  std::vector<RangeRef> those;
  for (const auto& [number, range] : ranges_) {
    if (which(*range)) those.push_back(range);
  }
  for (const RangeRef& range : those) CloseOne(range);
}

void OpenRanges::DropBuffer(BufferId buffer) {
  CloseThose([&](const Range& range) { return range.buffer == buffer; });
}

void OpenRanges::DropGrant(const GrantId& grant) {
  CloseThose([&](const Range& range) { return range.grant == grant; });
}

void OpenRanges::DropPeer(const std::string& node) {
  CloseThose([&](const Range& range) { return range.reader == node; });
}

void OpenRanges::CloseAll() {
  CloseThose([](const Range&) { return true; });
}

void OpenRanges::WhenLetGo(BufferId buffer, Task then) {
  const bool held = std::any_of(ranges_.begin(), ranges_.end(),
                                [&](const auto& range) { return range.second->buffer == buffer; });
  if (!held) return then();
  waiting_[buffer].push_back(std::move(then));
}

void OpenRanges::Clear() {
  ranges_.clear();
  waiting_.clear();
}

}  // namespace onecopy::engine
