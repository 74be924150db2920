#include "daemon/pipeline/sum_server.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "daemon/pipeline/sum_message.h"

namespace onecopy::pipeline {

SumServer::SumServer(const Params& way)
    : connection_(way.connection),
      channel_(way.channel),
      from_(way.from),
      most_bytes_(way.most_bytes),
      end_(std::in_place, way.region, way.base) {}

std::shared_ptr<SumServer> SumServer::Start(const Params& way) {
  std::shared_ptr<SumServer> server(new SumServer(way));
  // Until it stops, or the connection closes.
  server->connection_->Listen(
      server->channel_, [server](std::span<const std::byte> message) { server->Hear(message); });
  return server;
}

std::optional<SmallSum> SumServer::Sum(const SumAsked& asked) const {
  if (asked.bytes == 0 || asked.bytes > most_bytes_) return std::nullopt;
  if (!Contains(from_, {asked.from, asked.bytes})) return std::nullopt;
  const Result<SmallSum> sum = end_->Sum(asked.from, asked.bytes);
  return sum.ok() ? std::optional(*sum) : std::nullopt;
}

void SumServer::Hear(std::span<const std::byte> message) {
  if (!end_) return;
  const auto asked = DecodeSumAsked(message);
  // An honest reader never has more under way.
  if (!asked || asked_.size() + asked->size() > SmallCopyRoute::kMaxUnderWay) return Stop([] {});
  const bool idle = asked_.empty();
  asked_.insert(asked_.end(), asked->begin(), asked->end());
  if (idle) TakeTurn();
}

void SumServer::TakeTurn() {
  if (!end_) return;
  std::vector<SumTold> told;
  for (uint64_t bytes = 0; !asked_.empty() && bytes < kTurnBytes && told.size() < kMaxSums;) {
    const SumAsked& next = asked_.front();
    told.push_back({next.number, Sum(next)});
    bytes += std::min(next.bytes, most_bytes_);
    asked_.pop_front();
  }
  Tell(told);
  if (asked_.empty()) return;
  connection_->executor().Post([self = shared_from_this()] { self->TakeTurn(); });
}

void SumServer::Tell(std::span<const SumTold> told) {
  const std::string text = Encode(told);
  // If the connection is closed, the reader knows that already.
  static_cast<void>(connection_->Send(channel_, std::as_bytes(std::span(text))));
}

void SumServer::Stop(Task stopped) {
  connection_->executor().Post([self = shared_from_this(), stopped = std::move(stopped)]() mutable {
    if (std::exchange(self->end_, std::nullopt)) {
      self->asked_.clear();
      self->connection_->Ignore(self->channel_);
      const SumTold rest{SumTold::kRest, {}};
      self->Tell({&rest, 1});
    }
    stopped();
  });
}

}  // namespace onecopy::pipeline
