// Many ranges in one transfer, and columns, against one contiguous transfer by the same path.
#include <algorithm>
#include <chrono>
#include <utility>

#include "bench/daemons/pair.h"
#include "bench/measure/payload.h"
#include "bench/work/transfer_mover.h"
#include "bench/work/works.h"
#include "transport/core/reasons.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kRanges = 1000;
constexpr uint64_t kRangeBytes = 64 << 10;
constexpr uint64_t kScattered = kRanges * kRangeBytes;
// One transfer of as many bytes. The figure to reach is 0.85 of it within a node, 0.8 between
// nodes.
constexpr double kLeastOfOneInNode = 0.85;
constexpr double kLeastOfOneBetweenNodes = 0.8;

constexpr uint64_t kStructure = 32;
constexpr uint64_t kColumnAt = 8;
constexpr uint64_t kFloat = 4;
constexpr uint64_t kRows = 16 << 20;
constexpr double kLeastOfContiguous = 0.5;  // per useful byte

// Moves ranges of a payload, and knows where each byte of it belongs. The payload of a seed lies in
// the whole source, and the ranges take their bytes out of it.
class ScatterMover final : public Mover {
 public:
  ScatterMover(End source, End destination, std::vector<RangePair> ranges, std::string path)
      : source_(std::move(source)),
        destination_(std::move(destination)),
        ranges_(std::move(ranges)),
        path_(std::move(path)) {}

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
    moved.seconds = done.receipt.seconds;
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
    for (const auto& [from, to] : ranges_) {
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
};

// Blocks that lie in another order at the destination, none beside its neighbour.
std::vector<RangePair> Scattered() {
  std::vector<RangePair> ranges;
  for (uint64_t i = 0; i < kRanges; ++i) {
    const uint64_t there = i * 617 % kRanges;  // 617 and 1,000 have no common factor
    ranges.push_back(
        {{i * 2 * kRangeBytes, kRangeBytes, 0, 1}, {there * 2 * kRangeBytes, kRangeBytes, 0, 1}});
  }
  return ranges;
}

std::vector<RangePair> Column() {
  return {{{kColumnAt, kFloat, kStructure, kRows}, {0, kFloat * kRows, 0, 1}}};
}

struct Case {
  std::string path;
  bool gpus;
  bool in_node;
};

// Two GPUs where there are two, else one; the reason why there is none.
Result<std::pair<std::string, std::string>> Gpus(const Daemon& daemon) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, daemon.Connect());
  ONECOPY_ASSIGN_OR_RETURN(const NodeInfo node, client.GetNode());
  std::vector<std::string> gpus;
  Viability none = Viability::No(reasons::kNoGpu, "the daemon has no memory of kind cuda");
  if (node.capabilities) {
    for (const MemoryCapability& memory : node.capabilities->memories) {
      if (memory.kind != "cuda") continue;
      if (memory.viability.viable) gpus.push_back(memory.device);
      if (!memory.viability.viable) none = memory.viability;
    }
  }
  if (gpus.empty()) return Status(Code::kFailedPrecondition, none.reason, none.detail, none.remedy);
  return std::pair(gpus.front(), gpus.back());
}

Row Run(Row row, const Case& what, std::vector<RangePair> ranges, uint64_t source_bytes,
        uint64_t destination_bytes, const Settings& settings) {
  Settings room = settings;
  room.bytes = source_bytes + destination_bytes;
  if (const Status fits = CheckHostMemory(room, 4); !fits.ok()) return NotSetUp(row, fits);
  const Result<Pair> pair = Pair::Start(settings.daemon);
  if (!pair.ok()) return NotSetUp(row, pair.status());
  const Daemon& east = *pair->east;
  const Daemon& west = what.in_node ? *pair->east : *pair->west;
  std::pair<std::string, std::string> memories = {"host", "host"};
  if (what.gpus) {
    const auto gpus = Gpus(east);
    if (!gpus.ok()) return Waived(row, gpus.status());
    if (what.in_node && gpus->first == gpus->second) {
      return Waived(row, {Code::kFailedPrecondition, reasons::kNoGpu,
                          "this needs two GPUs, and there is one"});
    }
    memories = *gpus;
  }
  auto source = End::Create(east, memories.first, source_bytes);
  if (!source.ok()) return NotSetUp(row, source.status());
  auto destination = End::Create(west, memories.second, destination_bytes);
  if (!destination.ok()) return NotSetUp(row, destination.status());
  ScatterMover work(std::move(*source), std::move(*destination), std::move(ranges), row.path);
  const uint64_t bytes = row.bytes;
  const MakeCeiling one_transfer = [&](const Moved&) {
    return MakeTransfer({east, memories.first, west, memories.second, what.path}, bytes);
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
  std::vector<Row> rows;
  for (const Case& what : Cases()) {
    Row row = {.work = "scattered 1,000 x 64 KiB",
               .path = what.path,
               .bytes = kScattered,
               .ceiling = "one transfer",
               .floor = what.in_node ? kLeastOfOneInNode : kLeastOfOneBetweenNodes};
    rows.push_back(
        Run(std::move(row), what, Scattered(), 2 * kScattered, 2 * kScattered, settings));
  }
  return rows;
}

std::vector<Row> StridedColumn(const Settings& settings) {
  std::vector<Row> rows;
  for (const Case& what : Cases()) {
    Case by = what;
    // Floats are not read over sockets one by one.
    if (by.path == "tcp-direct") by.path = "tcp-bounce";
    Row row = {.work = "strided column",
               .path = by.path,
               .bytes = kFloat * kRows,
               .ceiling = "one transfer",
               .floor = kLeastOfContiguous};
    rows.push_back(Run(std::move(row), by, Column(), kStructure * kRows, kFloat * kRows, settings));
  }
  return rows;
}

}  // namespace onecopy::bench
