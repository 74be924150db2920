#include "daemon/engine/rings/push_ends.h"

#include <atomic>
#include <utility>

#include "daemon/engine/base/names.h"
#include "transport/core/base/duration.h"

namespace onecopy::engine {

PushEnds::Ended PushEnds::For(Of of) {
  return [this, of = std::make_shared<const Of>(std::move(of)),
          waiting = std::make_shared<std::atomic<uint32_t>>(0)](
             const pipeline::Push& push, const ring::ErrandEnd& end, Task tell) {
    Task now;
    Task later;
    (waiting->fetch_add(1) < kMany ? now : later) = std::move(tell);
    context_.loop.Post([this, of, waiting, push, end, later = std::move(later)]() mutable {
      Note(*of, push, end);
      waiting->fetch_sub(1);
      if (later) later();
    });
    if (now) now();
  };
}

void PushEnds::Note(const Of& of, const pipeline::Push& push, const ring::ErrandEnd& end) {
  transfers_.CountBeside();
  const Buffer* const into = buffers_.FindById(of.into);
  if (!end.status.ok() || into == nullptr) return;
  TransferInfo info;
  info.id = RingTransferId(of.prefix, push.transfer);
  info.source = of.source;
  info.source.offset_bytes = push.from;
  info.destination = of.destination;
  info.destination.offset_bytes = push.to;
  info.source.bytes = info.destination.bytes = info.bytes = push.bytes;
  info.receipt.seconds = ToSeconds(end.ended - end.begun);
  Arrival arrival;
  arrival.transfer = info.id;
  arrival.from = of.owner;
  arrival.range = {push.to, push.bytes};
  arrival.bytes = push.bytes;
  arrivals_.Deliver(*into, std::move(arrival), {});
  rates_.Note(of.way, end.begun, end.alone, info);
}

}  // namespace onecopy::engine
