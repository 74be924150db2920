// Many ranges in one transfer, and columns, against one contiguous transfer by the same path.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "bench/daemons/environment.h"
#include "bench/measure/payload.h"
#include "bench/work/gpus.h"
#include "bench/work/transfer_mover.h"
#include "bench/work/works.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kMaxRanges = 1000;  // fewer for a smaller payload
constexpr uint64_t kRangeBytes = 64 << 10;
// One transfer of as many bytes. The figure to reach is 0.85 of it within a node, 0.8 between
// nodes.
constexpr double kMinOfOneInNode = 0.85;
constexpr double kMinOfOneBetweenNodes = 0.8;

// As inference engines ask for a cache's blocks: fewer for a smaller payload.
constexpr uint64_t kManyRanges = 131072;
constexpr uint64_t kBlockBytes = 16 << 10;
// Of one processor's memcpy over the same ranges, asking and waiting for the end included.
constexpr double kMinOfMemcpy = 0.8;

constexpr uint64_t kStructure = 32;
constexpr uint64_t kColumnAt = 8;
constexpr uint64_t kFloat = 4;
constexpr uint64_t kMaxRows = 16 << 20;
// Per useful byte. A floor for GPUs alone: a processor reads all of a structure's cache line for
// one float of it, which leaves a third of a contiguous copy's rate at the most (see README.md).
constexpr double kMinOfContiguous = 0.5;

// Moves ranges of a payload, and knows where each byte of it belongs. The payload of a seed lies in
// the whole source, and the ranges take their bytes out of it.
class ScatterMover final : public Mover {
 public:
  // `whole`: what is timed is what the client waits for, not the moving alone.
  ScatterMover(End source, End destination, std::vector<RangePair> ranges, std::string path,
               bool whole = false)
      : source_(std::move(source)),
        destination_(std::move(destination)),
        ranges_(std::move(ranges)),
        path_(std::move(path)),
        whole_(whole) {}

  Status Fill(uint64_t seed) override {
    ONECOPY_RETURN_IF_ERROR(source_.Put(seed));
    return destination_.Put(seed + 1);
  }

  Result<Moved> Move() override {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    TransferRequest request;
    request.source = source_.endpoint();
    request.destination = destination_.endpoint();
    request.ranges = ranges_;
    request.policy.path_glob = path_;
    ONECOPY_ASSIGN_OR_RETURN(const TransferInfo done, source_.client().RunTransfer(request));
    const double client_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    ONECOPY_RETURN_IF_ERROR(OutcomeOf(done));
    Moved moved;
    moved.seconds = whole_ ? client_seconds : done.receipt.seconds;
    moved.details["asking_us_per_range"] =
        1e6 * (client_seconds - done.receipt.seconds) / static_cast<double>(ranges_.size());
    moved.lanes = static_cast<unsigned>(done.receipt.lanes.size());
    moved.details["client_seconds"] = client_seconds;
    moved.details["negotiation_seconds"] = done.receipt.negotiation_seconds;
    moved.details["ranges"] = static_cast<double>(done.receipt.ranges);
    moved.details["copies"] = static_cast<double>(done.receipt.copies());
    const auto& steps = done.receipt.steps;
    moved.details["kernel_steps"] =
        static_cast<double>(std::count_if(steps.begin(), steps.end(), [](const ExecutedStep& step) {
          return step.step.by == "gpu-kernel";
        }));
    return moved;
  }

  Result<bool> Verify(uint64_t seed) override {
    ONECOPY_ASSIGN_OR_RETURN(const std::vector<std::byte> source, source_.Read());
    ONECOPY_ASSIGN_OR_RETURN(const std::vector<std::byte> destination, destination_.Read());
    // What was there before stays between the ranges.
    std::vector<std::byte> expected(destination.size());
    FillPayload(expected.data(), expected.size(), seed + 1);
    for (const auto& [from, to, source_buffer, destination_buffer] : ranges_) {
      // Both sides' elements in small pieces, whichever are shorter.
      const uint64_t piece = std::min(from.bytes, to.bytes);
      const uint64_t bytes = from.bytes * from.count;
      for (uint64_t at = 0; at < bytes; at += piece) {
        const uint64_t f = from.offset + at / from.bytes * from.stride + at % from.bytes;
        const uint64_t t = to.offset + at / to.bytes * to.stride + at % to.bytes;
        std::copy_n(source.begin() + static_cast<ptrdiff_t>(f), piece,
                    expected.begin() + static_cast<ptrdiff_t>(t));
      }
    }
    return expected == destination;
  }

 private:
  End source_;
  End destination_;
  const std::vector<RangePair> ranges_;
  const std::string path_;
  const bool whole_;
};

// The same ranges by one thread's memcpy, one after the other.
class RangesByMemcpy final : public Mover {
 public:
  static Result<std::unique_ptr<Mover>> Create(std::vector<RangePair> ranges, uint64_t bytes) {
    auto made = std::make_unique<RangesByMemcpy>(std::move(ranges));
    ONECOPY_ASSIGN_OR_RETURN(made->source_, os::MapAnonymous(bytes));
    ONECOPY_ASSIGN_OR_RETURN(made->destination_, os::MapAnonymous(bytes));
    std::memset(made->destination_.data(), 0, bytes);  // resident from here on
    return std::unique_ptr<Mover>(std::move(made));
  }
  explicit RangesByMemcpy(std::vector<RangePair> ranges) : ranges_(std::move(ranges)) {}

  Status Fill(uint64_t seed) override {
    FillPayload(source_.data(), source_.bytes(), seed);
    return OkStatus();
  }
  Result<Moved> Move() override {
    const auto begin = std::chrono::steady_clock::now();
    for (const RangePair& pair : ranges_) {
      std::memcpy(destination_.data() + pair.destination.offset,
                  source_.data() + pair.source.offset, pair.source.bytes);
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    return Moved{.seconds = time.count()};
  }
  Result<bool> Verify(uint64_t) override {
    return std::all_of(ranges_.begin(), ranges_.end(), [this](const RangePair& pair) {
      return std::memcmp(destination_.data() + pair.destination.offset,
                         source_.data() + pair.source.offset, pair.source.bytes) == 0;
    });
  }

 private:
  const std::vector<RangePair> ranges_;
  os::Mapping source_;
  os::Mapping destination_;
};

// Blocks that lie in another order at the destination, none beside its neighbour.
std::vector<RangePair> Scattered(uint64_t count, uint64_t bytes = kRangeBytes) {
  std::vector<RangePair> ranges;
  const uint64_t step = count % 617 == 0 ? 619 : 617;  // primes: each place comes once
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t there = i * step % count;
    ranges.push_back({{i * 2 * bytes, bytes, 0, 1}, {there * 2 * bytes, bytes, 0, 1}});
  }
  return ranges;
}

std::vector<RangePair> Column(uint64_t rows) {
  return {{{kColumnAt, kFloat, kStructure, rows}, {0, kFloat * rows, 0, 1}}};
}

struct Case {
  std::string path;
  bool gpus;
  bool in_node;
};

// The memories of the two ends; the reason why there are none.
Result<std::pair<std::string, std::string>> MemoriesOf(const Case& what,
                                                       const Environment& environment) {
  if (!what.gpus) return std::pair<std::string, std::string>("host", "host");
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<MemoryCapability> gpus, UsableGpus(environment.here));
  if (what.in_node) ONECOPY_RETURN_IF_ERROR(CheckPeers(gpus));
  return std::pair(gpus.front().device, gpus.at(gpus.size() > 1 ? 1 : 0).device);
}

Row Run(Row row, const Case& what, std::vector<RangePair> ranges, uint64_t source_bytes,
        uint64_t destination_bytes, const Settings& settings) {
  // The windows of both ends, what is verified, and the ceiling's.
  const Status room = CheckHostMemory(source_bytes + destination_bytes, 4);
  if (!room.ok()) return NotSetUp(row, room);
  const Result<Environment> environment = Environment::Open({}, settings.daemon);
  if (!environment.ok()) return NotSetUp(row, environment.status());
  const auto memories = MemoriesOf(what, *environment);
  if (!memories.ok()) return Waived(row, memories.status());
  const Node& there = what.in_node ? environment->here : environment->there;
  auto source = End::Create(environment->here, memories->first, source_bytes);
  if (!source.ok()) return NotSetUp(row, source.status());
  auto destination = End::Create(there, memories->second, destination_bytes);
  if (!destination.ok()) return NotSetUp(row, destination.status());
  ScatterMover work(std::move(*source), std::move(*destination), std::move(ranges), row.path);
  const TransferParams params = {environment->here, memories->first, there, memories->second,
                                 what.path};
  const MakeCeiling one_transfer = [&params, bytes = row.bytes](const Moved&) {
    return MakeTransfer(params, bytes);
  };
  return Compare(std::move(row), work, one_transfer, settings.compare());
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {{"peer-direct", true, true},
                                          {"tcp-staged", true, false},
                                          {"tcp-direct", false, false},
                                          {"local", false, true}};
  return cases;
}

}  // namespace

std::vector<Row> ScatteredRanges(const Settings& settings) {
  const uint64_t count = std::clamp<uint64_t>(settings.bytes / kRangeBytes, 2, kMaxRanges);
  const uint64_t bytes = count * kRangeBytes;
  std::vector<Row> rows;
  for (const Case& what : Cases()) {
    const double least = what.in_node ? kMinOfOneInNode : kMinOfOneBetweenNodes;
    Row row = {.work = "scattered 1,000 x 64 KiB",
               .path = what.path,
               .bytes = bytes,
               .ceiling = "one transfer",
               .floor = least,
               .target = least};
    rows.push_back(Run(std::move(row), what, Scattered(count), 2 * bytes, 2 * bytes, settings));
  }
  return rows;
}

std::vector<Row> ManyRanges(const Settings& settings) {
  const uint64_t count = std::clamp<uint64_t>(settings.bytes / kBlockBytes, 2, kManyRanges);
  const uint64_t window = 2 * count * kBlockBytes;
  Row row = {.work = "scattered 131,072 x 16 KiB",
             .path = "local",
             .bytes = count * kBlockBytes,
             .ceiling = "memcpy of the same ranges",
             .target = kMinOfMemcpy};
  const Status room = CheckHostMemory(2 * window, 4);
  if (!room.ok()) return {NotSetUp(row, room)};
  const Result<Environment> environment = Environment::Open({}, settings.daemon);
  if (!environment.ok()) return {NotSetUp(row, environment.status())};
  auto source = End::Create(environment->here, "host", window);
  if (!source.ok()) return {NotSetUp(row, source.status())};
  auto destination = End::Create(environment->here, "host", window);
  if (!destination.ok()) return {NotSetUp(row, destination.status())};
  const std::vector<RangePair> ranges = Scattered(count, kBlockBytes);
  ScatterMover work(std::move(*source), std::move(*destination), ranges, row.path, true);
  const MakeCeiling by_memcpy = [&](const Moved&) {
    return RangesByMemcpy::Create(ranges, window);
  };
  return {Compare(std::move(row), work, by_memcpy, settings.compare())};
}

std::vector<Row> StridedColumn(const Settings& settings) {
  const uint64_t count = std::clamp<uint64_t>(settings.bytes / kFloat, 2, kMaxRows);
  std::vector<Row> rows;
  for (const Case& what : Cases()) {
    Case by = what;
    // Floats are not read over sockets one by one.
    if (by.path == "tcp-direct") by.path = "tcp-bounce";
    Row row = {.work = "strided column",
               .path = by.path,
               .bytes = kFloat * count,
               .ceiling = "one transfer",
               .target = kMinOfContiguous};
    if (by.gpus) row.floor = kMinOfContiguous;
    rows.push_back(
        Run(std::move(row), by, Column(count), kStructure * count, kFloat * count, settings));
  }
  return rows;
}

}  // namespace onecopy::bench
