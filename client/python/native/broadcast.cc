#include <nanobind/nanobind.h>

#include <chrono>
#include <utility>

#include "client/python/native/errors.h"
#include "client/python/native/node.h"
#include "client/python/native/request.h"
#include "client/python/native/waiting.h"
#include "onecopy/broadcast.h"

namespace onecopy::python {
namespace {

namespace nb = nanobind;

TransferInfo AsTransfer(const Endpoint& source, BroadcastCopy copy) {
  TransferInfo info;
  info.source = source;
  info.destination = std::move(copy.destination);
  info.bytes = info.bytes_done = copy.bytes;
  info.receipt = std::move(copy.receipt);
  info.error = copy.outcome;
  info.state = TransferState::kSucceeded;
  if (!copy.outcome.ok()) {
    const bool cancelled = copy.outcome.code() == Code::kCancelled;
    info.state = cancelled ? TransferState::kCancelled : TransferState::kFailed;
  }
  return info;
}

}  // namespace

std::vector<Node::Copy> Node::Broadcast(const nb::tuple& request, int64_t retry_for_ms,
                                        uint64_t piece_bytes, const nb::object& on_update,
                                        const std::stop_source& stop) {
  const TransferRequest wanted = ToRequest(request);
  BroadcastRequest broadcast;
  broadcast.source = wanted.source;
  broadcast.destinations = {wanted.destination};
  broadcast.destinations.insert(broadcast.destinations.end(), wanted.more_destinations.begin(),
                                wanted.more_destinations.end());
  broadcast.policy = wanted.policy;
  broadcast.checksum = wanted.checksum;
  broadcast.trace = wanted.trace;
  broadcast.deadline = wanted.deadline;
  broadcast.retry_for = std::chrono::milliseconds(retry_for_ms);
  broadcast.piece_bytes = piece_bytes;
  OnUpdate update;
  if (!on_update.is_none()) {
    update = [&on_update](const TransferInfo& info) { on_update(TransferSnapshot(info)); };
  }
  std::vector<BroadcastCopy> copies;
  TransferInfo all;
  all.source = broadcast.source;
  all.destination = broadcast.destinations.front();
  all.state = TransferState::kRunning;
  all = Must(Wait(
      [&](const Client::OnUpdate& note, std::stop_token token) -> Result<TransferInfo> {
        OnBroadcast on_progress;
        if (note) {
          on_progress = [&](uint64_t done, uint64_t total) {
            all.bytes = total;
            all.bytes_done = done;
            note(all);
          };
        }
        ONECOPY_ASSIGN_OR_RETURN(copies,
                                 client_.Broadcast(broadcast, on_progress, std::move(token)));
        return all;
      },
      update, stop));
  std::vector<Copy> made;
  for (BroadcastCopy& copy : copies) {
    std::vector<Origin> origins;
    for (const BroadcastOrigin& origin : copy.origins) {
      origins.emplace_back(origin.from, origin.bytes,
                           origin.left.ok() ? nb::none() : ToException(origin.left));
    }
    made.emplace_back(TransferSnapshot(AsTransfer(broadcast.source, std::move(copy))),
                      std::move(origins));
  }
  return made;
}

}  // namespace onecopy::python
