#include "daemon/pipeline/mover.h"

namespace onecopy::pipeline {

void CopyMover::Move(const Cell& from, const Cell& to, Done done) {
  route_->Copy(from.at, to.at, from.bytes,
               [this, done = std::move(done)](Status status, const StepList& steps) mutable {
                 if (executor_.InThread()) return done({std::move(status), steps});
                 executor_.Post([done = std::move(done), status = std::move(status),
                                 steps = StepList(steps)]() mutable {
                   done({std::move(status), std::move(steps)});
                 });
               });
}

GetMover::GetMover(std::shared_ptr<Connection> connection, ChannelId channel, RemoteKey key,
                   RegionRef region, std::vector<double> lane_rates)
    : connection_(std::move(connection)),
      channel_(channel),
      key_(std::move(key)),
      region_(std::move(region)),
      lane_rates_(std::move(lane_rates)) {}

void GetMover::Move(const Cell& from, const Cell& to, Done done) {
  connection_->Get(
      {channel_, &key_, from.at, {region_, to.at, from.bytes}, GetRequest::kAnyLane, lane_rates_},
      [done = std::move(done)](Status status, const StepList& steps, unsigned lane) mutable {
        done({std::move(status), steps, static_cast<int>(lane)});
      });
}

}  // namespace onecopy::pipeline
