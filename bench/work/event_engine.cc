// io_uring held against epoll at equal work over loopback: whether the tcp link should use the one
// or the other is decided by these rows, on the machine in question.
#include <algorithm>
#include <iterator>
#include <optional>

#include "bench/ceiling/event_ping_pong.h"
#include "bench/ceiling/event_streams.h"
#include "bench/work/works.h"
#include "transport/os/machine.h"

namespace onecopy::bench {
namespace {

using Buffers = RingWay::Buffers;

constexpr char kEpoll[] = "epoll";
constexpr uint64_t kReusedBytes = uint64_t{256} << 10;
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;  // of the link's gets
constexpr unsigned kLanes[] = {1, 2, 8, 16};         // where none are asked for
// More takes longer and says no more.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;
constexpr unsigned kPayloadsInMemory = 4;  // both ends of both engines
constexpr Many kOneByOne{.piece_bytes = 4096, .depth = 1, .count = 2000};
constexpr Many kInFlight{.piece_bytes = 4096, .depth = 256, .count = 32768};

struct Variant {
  const char* name;
  std::optional<RingWay> ring;
  uint64_t low_water_bytes = 1;  // of epoll
};
constexpr RingWay kRing{.chain = 4};
constexpr Variant kStreams[] = {
    {"io_uring", kRing},
    {"io_uring without deferred completions", RingWay{.deferred = false, .chain = 4}},
    {"io_uring, one operation at a time", RingWay{.chain = 1}},
    {"io_uring, 16 operations", RingWay{.chain = 16}},
    {"io_uring, 4 completions a turn", RingWay{.chain = 4, .batch = 4}},
    {"io_uring, fixed buffers", RingWay{.chain = 1, .buffers = Buffers::kFixed}},
    {"io_uring, SEND_ZC", RingWay{.chain = 4, .buffers = Buffers::kZeroCopy}},
    {"epoll with SO_RCVLOWAT", std::nullopt, kReusedBytes}};
constexpr Variant kPieces[] = {
    {"io_uring", RingWay{.chain = 32}},
    {"io_uring without deferred completions", RingWay{.deferred = false, .chain = 32}},
    {"io_uring, one operation at a time", RingWay{.chain = 1}},
    {"io_uring, 16 completions a turn", RingWay{.chain = 32, .batch = 16}},
    {"io_uring without deferred completions, 16 a turn",
     RingWay{.deferred = false, .chain = 32, .batch = 16}}};

using MoverOr = Result<std::unique_ptr<Mover>>;

// The rate and what it cost. What the kernel refuses is WAIVED.
void Hold(Row row, const MoverOr& engine, const MakeCeiling& epoll, const CompareOptions& options,
          std::vector<Row>& rows) {
  Compared compared;
  if (engine.ok()) {
    compared = CompareWithCpu(std::move(row), **engine, epoll, options);
  } else {
    const bool refused = engine.status().code() == Code::kFailedPrecondition;
    compared.row = (refused ? Waived : NotSetUp)(std::move(row), engine.status());
  }
  rows.push_back(compared.row);
  rows.push_back(CpuRow(compared, kEpoll));
}

void HoldStreams(const Variant& variant, unsigned lanes, bool reused, const Settings& settings,
                 std::vector<Row>& rows) {
  const uint64_t bytes = std::min(settings.bytes, kMostBytes);
  const EventStreamsWay epoll = {
      .shape = {.bytes = bytes, .lanes = lanes, .reused_bytes = reused ? kReusedBytes : 0},
      .operation_bytes = reused ? kReusedBytes : kChunkBytes,
      .threads = std::min(lanes, os::UsableCores())};
  EventStreamsWay way = epoll;
  way.ring = variant.ring;
  way.low_water_bytes = variant.low_water_bytes;
  Row row = {.work = std::string("event engine: ") + variant.name + ", " + std::to_string(lanes) +
                     (lanes == 1 ? " lane, " : " lanes, ") +
                     (reused ? "reused buffers" : "whole payload"),
             .bytes = bytes,
             .ceiling = kEpoll};
  const Status room = CheckHostMemory(reused ? 1 : bytes, kPayloadsInMemory);
  Hold(
      std::move(row), room.ok() ? EventStreams::Create(way) : room,
      [&](const Moved&) { return EventStreams::Create(epoll); }, settings.compare(), rows);
}

void HoldPieces(const Variant& variant, const Many& many, const Settings& settings,
                std::vector<Row>& rows) {
  Row row = {.work = std::string("event engine: ") + variant.name + ", 4 KiB, " +
                     std::to_string(many.depth) + " in flight",
             .bytes = many.piece_bytes,
             .ceiling = kEpoll};
  Hold(
      std::move(row), EventPingPong::Create(many, variant.ring),
      [&](const Moved&) { return EventPingPong::Create(many, std::nullopt); }, settings.compare(),
      rows);
}

}  // namespace

std::vector<Row> EventEngine(const Settings& settings) {
  std::vector<unsigned> lanes = settings.lanes;
  if (lanes == std::vector<unsigned>{0}) lanes.assign(std::begin(kLanes), std::end(kLanes));
  std::vector<Row> rows;
  // At least one row says what became of it.
  const auto stopped = [&] { return !rows.empty() && settings.stopped && settings.stopped(); };
  for (const Variant& variant : kStreams) {
    for (const unsigned count : lanes) {
      for (const bool reused : {true, false}) {
        if (stopped()) return rows;
        HoldStreams(variant, std::max(count, 1U), reused, settings, rows);
      }
    }
  }
  for (const Variant& variant : kPieces) {
    for (const Many& many : {kOneByOne, kInFlight}) {
      if (stopped()) return rows;
      HoldPieces(variant, many, settings, rows);
    }
  }
  return rows;
}

}  // namespace onecopy::bench
