#include "daemon/pipeline/small_server.h"

#include <utility>

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::pipeline {

std::shared_ptr<SmallServer> SmallServer::Start(Params way) {
  std::shared_ptr<SmallServer> server(new SmallServer(std::move(way)));
  // Until it stops, or the connection closes.
  server->way_.connection->Listen(
      server->way_.channel,
      [server](std::span<const std::byte> message) { server->Hear(message); });
  return server;
}

void SmallServer::Hear(std::span<const std::byte> message) {
  if (!why_.ok()) return;
  const auto pushes = DecodePushes(message, way_.reader->sums());
  if (!pushes) {
    return Stop({Code::kInvalidArgument, reasons::kBadArgument,
                 "the peer sent a malformed request for small transfers"},
                [] {});
  }
  for (const Push& push : *pushes) Serve(push);
  way_.reader->Flush();
}

Status SmallServer::Check(const Push& push) const {
  if (push.bytes == 0 || push.bytes > way_.most_bytes ||
      !Contains(way_.from, {push.from, push.bytes}) || !Contains(way_.to, {push.to, push.bytes})) {
    return {Code::kOutOfRange, reasons::kRangeOutOfBuffer,
            "a small transfer reaches outside the agreed range"};
  }
  if (under_way_ < SmallCopyRoute::kMaxUnderWay && bytes_under_way_ < kManyBytes) return OkStatus();
  return {Code::kResourceExhausted, reasons::kQuota, "too many small transfers under way"};
}

void SmallServer::Serve(const Push& push) {
  if (Status wrong = Check(push); !wrong.ok()) return Answer(push.number, wrong);
  ++under_way_;
  bytes_under_way_ += push.bytes;
  way_.reader->Read(push, [self = shared_from_this(), number = push.number,
                           bytes = push.bytes](const Status& status) {
    --self->under_way_;
    self->bytes_under_way_ -= bytes;
    // What failed while it is stopping has failed because of that.
    self->Answer(number, status.ok() || self->why_.ok() ? status : self->why_);
    if (!self->why_.ok()) self->EndIfIdle();
  });
}

void SmallServer::Answer(uint64_t number, const Status& status) {
  const std::string text = Encode(Pushed{number, status});
  // A connection that is closed has told the owner by that.
  (void)way_.connection->Send(way_.channel, std::as_bytes(std::span(text)));
}

void SmallServer::Stop(const Status& why, Task stopped) {
  way_.connection->executor().Post(
      [self = shared_from_this(), why, stopped = std::move(stopped)]() mutable {
        if (self->way_.reader == nullptr) return stopped();  // long since
        self->stopped_.push_back(std::move(stopped));
        if (!self->why_.ok()) return;
        self->why_ = why;
        if (self->under_way_ > 0) self->way_.reader->Cancel();
        self->EndIfIdle();
      });
}

void SmallServer::EndIfIdle() {
  if (under_way_ > 0) return;
  Answer(Pushed::kRest, why_);
  way_.connection->Ignore(way_.channel);
  way_.reader.reset();
  for (Task& stopped : std::exchange(stopped_, {})) stopped();
}

}  // namespace onecopy::pipeline
