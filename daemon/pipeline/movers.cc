#include "daemon/pipeline/mover.h"

#include <algorithm>
#include <cassert>

#include "transport/core/ranges/scatter.h"

namespace onecopy::pipeline {
namespace {

std::vector<StridedCopy> CopiesBetween(const Layouts& layouts, const Chunk& from, const Chunk& to) {
  return CopiesOf({layouts.from.get(), from.at}, {layouts.to.get(), to.at}, from.offset,
                  from.bytes);
}

template <typename Key>
void Count(const Key& key, uint64_t bytes, std::vector<std::pair<Key, uint64_t>>* counts) {
  if (counts->empty() || counts->back().first != key) counts->emplace_back(key, 0);
  counts->back().second += bytes;
}

// The gets of one chunk.
struct Batch {
  Mover::Done done;
  Moved moved;
  uint64_t left = 0;

  void Ended(Status status, const StepList& steps, unsigned lane, uint64_t bytes) {
    if (!status.ok() && moved.status.ok()) moved.status = std::move(status);
    Count(lane, bytes, &moved.lane_bytes);
    Count(steps, bytes, &moved.step_bytes);
    if (--left == 0) done(std::move(moved));
  }
};

}  // namespace

void CopyMover::Move(const Chunk& from, const Chunk& to, Done done) {
  CopyRoute::Done copied = [this, done = std::move(done)](Status status,
                                                          const StepList& steps) mutable {
    if (executor_.InThread()) return done({std::move(status), steps});
    executor_.Post(
        [done = std::move(done), status = std::move(status), steps = StepList(steps)]() mutable {
          done({std::move(status), std::move(steps)});
        });
  };
  if (layouts_.none()) return route_->Copy(from.at, to.at, from.bytes, std::move(copied));
  route_->CopyMany(CopiesBetween(layouts_, from, to), std::move(copied));
}

GetMover::GetMover(std::shared_ptr<Connection> connection, ChannelId channel, RemoteKey key,
                   RegionRef region, std::vector<double> lane_rates, const Flow& flow,
                   Layouts layouts, uint64_t piece_bytes)
    : connection_(std::move(connection)),
      channel_(channel),
      key_(std::move(key)),
      region_(std::move(region)),
      lane_rates_(std::move(lane_rates)),
      flow_(flow),
      layouts_(std::move(layouts)),
      piece_bytes_(piece_bytes) {
  assert(piece_bytes > 0);
}

void GetMover::Move(const Chunk& from, const Chunk& to, Done done) {
  if (!layouts_.none() || from.bytes > piece_bytes_) {
    return GetMany(PiecesOf(from, to), from.key == nullptr ? key_ : *from.key, std::move(done));
  }
  connection_->Get(
      {channel_,
       from.key == nullptr ? &key_ : from.key,
       from.at,
       {region_, to.at, from.bytes},
       GetRequest::kAnyLane,
       lane_rates_,
       flow_},
      [done = std::move(done)](Status status, const StepList& steps, unsigned lane) mutable {
        done({std::move(status), steps, static_cast<int>(lane)});
      });
}

std::vector<StridedCopy> GetMover::PiecesOf(const Chunk& from, const Chunk& to) const {
  if (!layouts_.none()) return CopiesBetween(layouts_, from, to);
  std::vector<StridedCopy> pieces;
  for (uint64_t at = 0; at < from.bytes; at += piece_bytes_) {
    pieces.push_back(
        {.from = from.at + at, .to = to.at + at, .bytes = std::min(piece_bytes_, from.bytes - at)});
  }
  return pieces;
}

void GetMover::GetMany(const std::vector<StridedCopy>& pieces, const RemoteKey& key, Done done) {
  auto batch = std::make_shared<Batch>();
  batch->done = std::move(done);
  for (const StridedCopy& copy : pieces) batch->left += copy.count;
  for (const StridedCopy& copy : pieces) {
    for (uint64_t i = 0; i < copy.count; ++i) {
      const Span into{region_, copy.to + i * copy.to_stride, copy.bytes};
      connection_->Get(
          {channel_, &key, copy.from + i * copy.from_stride, into, GetRequest::kAnyLane,
           lane_rates_, flow_},
          [batch, bytes = copy.bytes](Status status, const StepList& steps, unsigned lane) {
            batch->Ended(std::move(status), steps, lane, bytes);
          });
    }
  }
}

}  // namespace onecopy::pipeline
