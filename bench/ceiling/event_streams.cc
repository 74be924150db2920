#include "bench/ceiling/event_streams.h"

#include <algorithm>
#include <functional>

#include "bench/ceiling/together.h"

namespace onecopy::bench {

std::span<std::byte> StreamEnd::OperationAt(uint64_t done) const {
  const uint64_t at = done % buffer.size();
  const uint64_t most = operation_bytes - at % operation_bytes;
  return buffer.subspan(at, std::min({bytes - done, buffer.size() - at, most}));
}

Result<std::unique_ptr<Mover>> EventStreams::Create(const EventStreamsWay& way) {
  EventStreamsWay own = way;
  own.threads = std::clamp(way.threads, 1U, way.shape.lanes);
  std::unique_ptr<EventStreams> streams(new EventStreams(own));
  ONECOPY_ASSIGN_OR_RETURN(streams->memory_, LaneMemory::Create(way.shape));
  // io_uring waits for a socket that blocks, and only for such a one.
  ONECOPY_ASSIGN_OR_RETURN(streams->lanes_,
                           ConnectOverLoopback(way.shape.lanes, way.ring.has_value()));
  // What the kernel refuses is known before the first sample.
  ONECOPY_RETURN_IF_ERROR(streams->MakeEngines().status());
  return std::unique_ptr<Mover>(std::move(streams));
}

Result<EventStreams::Engines> EventStreams::MakeEngines() const {
  Engines engines;
  for (unsigned thread = 0; thread < way_.threads; ++thread) {
    ONECOPY_RETURN_IF_ERROR(AddEngine(StreamDirection::kSend, thread, engines));
    ONECOPY_RETURN_IF_ERROR(AddEngine(StreamDirection::kReceive, thread, engines));
  }
  return engines;
}

Status EventStreams::AddEngine(StreamDirection direction, unsigned thread, Engines& engines) const {
  const bool sends = direction == StreamDirection::kSend;
  std::vector<StreamEnd> ends;
  for (unsigned lane = thread; lane < way_.shape.lanes; lane += way_.threads) {
    if (memory_.StripeBytes(lane) == 0) continue;
    ends.push_back({.fd = (sends ? lanes_[lane].sender : lanes_[lane].receiver).get(),
                    .buffer = sends ? memory_.Source(lane) : memory_.Destination(lane),
                    .bytes = memory_.StripeBytes(lane),
                    .operation_bytes = way_.operation_bytes});
  }
  if (ends.empty()) return OkStatus();
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<StreamEngine> engine,
                           way_.ring ? MakeRingStreams(direction, ends, *way_.ring)
                                     : MakeEpollStreams(direction, ends, way_.low_water_bytes));
  engines.push_back(std::move(engine));
  return OkStatus();
}

Status EventStreams::Fill(uint64_t seed) {
  memory_.Fill(seed);
  return OkStatus();
}

Result<Moved> EventStreams::Move() {
  ONECOPY_ASSIGN_OR_RETURN(const Engines engines, MakeEngines());
  std::vector<Status> ended(engines.size(), OkStatus());
  std::vector<std::function<void()>> jobs;
  for (size_t i = 0; i < engines.size(); ++i) {
    jobs.emplace_back([&ended, &engines, i] { ended[i] = engines[i]->Run(); });
  }
  Moved moved{.lanes = way_.shape.lanes, .loopback = true};
  const double cpu_before = ProcessCpuSeconds();
  moved.seconds = SecondsTogether(jobs);
  moved.cpu_seconds = ProcessCpuSeconds() - cpu_before;
  for (const Status& status : ended) ONECOPY_RETURN_IF_ERROR(status);
  double calls = 0;
  for (const auto& engine : engines) calls += static_cast<double>(engine->system_calls());
  moved.details = {{"threads", way_.threads},
                   {"system_calls_per_gb", calls * 1e9 / static_cast<double>(way_.shape.bytes)}};
  if (way_.ring) moved.details["deferred"] = engines.front()->deferred() ? 1 : 0;
  return moved;
}

Result<bool> EventStreams::Verify(uint64_t seed) { return memory_.Verify(seed); }

}  // namespace onecopy::bench
