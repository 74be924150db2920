// Many ranges of a file by one request, beside as many bytes of one piece.
#include <algorithm>
#include <chrono>

#include "bench/daemons/daemon.h"
#include "bench/daemons/temp_folder.h"
#include "bench/measure/payload.h"
#include "bench/work/file_mover.h"
#include "bench/work/works.h"
#include "onecopy/file_copy.h"

namespace onecopy::bench {
namespace {

constexpr const char* kFileRangesPath = "storage-bounce";
constexpr uint64_t kFileRanges = 10'000;  // fewer for a small payload
constexpr uint64_t kLeastRange = 4 << 10;
constexpr unsigned kRangeSizes = 9;  // 4 KiB, 8 KiB … 1 MiB
constexpr double kFileRangesFloor = 0.5;
constexpr double kFileRangesTarget = 0.7;

struct FileRanges {
  std::vector<RangePair> pairs;
  uint64_t file_bytes = 0;
  uint64_t bytes = 0;
};

// FileRanges of all sizes in turn with gaps as long as themselves, in no order of the file's; they
// lie one after the other in memory.
FileRanges PlanRanges(uint64_t payload_bytes) {
  FileRanges all;
  for (uint64_t i = 0; i < kFileRanges && all.bytes < payload_bytes; ++i) {
    const uint64_t bytes = kLeastRange << (i % kRangeSizes);
    all.pairs.push_back({{all.file_bytes, bytes, 0, 1}, {}});
    all.file_bytes += 2 * bytes;
    all.bytes += bytes;
  }
  const uint64_t count = all.pairs.size();
  const uint64_t step = count % 617 == 0 ? 619 : 617;  // primes: each comes once
  std::vector<RangePair> mixed;
  uint64_t at = 0;
  for (uint64_t i = 0; i < count; ++i) {
    RangePair pair = all.pairs[i * step % count];
    pair.destination = {at, pair.source.bytes, 0, 1};
    at += pair.source.bytes;
    mixed.push_back(pair);
  }
  all.pairs = std::move(mixed);
  return all;
}

class RangesMover final : public Mover {
 public:
  static Result<std::unique_ptr<RangesMover>> Create(const Node& node, const std::string& path,
                                                     bool cold, FileRanges ranges) {
    ONECOPY_ASSIGN_OR_RETURN(auto file, PayloadFile::Plan(path, ranges.file_bytes));
    ONECOPY_ASSIGN_OR_RETURN(End end, End::Create(node, "host", ranges.bytes));
    return std::unique_ptr<RangesMover>(
        new RangesMover(std::move(file), std::move(end), std::move(ranges), cold));
  }

  Status Fill(uint64_t seed) override {
    ONECOPY_RETURN_IF_ERROR(file_->Put(seed));
    ONECOPY_RETURN_IF_ERROR(end_.Put(seed + 1));  // nothing right is left there
    return cold_ ? file_->Drop() : OkStatus();
  }

  Result<Moved> Move() override {
    using Clock = std::chrono::steady_clock;
    FileCopyOptions options;
    options.policy.path_glob = kFileRangesPath;
    options.ranges = ranges_.pairs;
    const Clock::time_point begin = Clock::now();
    ONECOPY_ASSIGN_OR_RETURN(
        const FileCopy copy,
        CopyFileToBuffer(end_.client(), {.path = file_->path()}, end_.endpoint(), options));
    Moved moved;
    moved.seconds = copy.receipt.seconds;
    moved.details["client_seconds"] = std::chrono::duration<double>(Clock::now() - begin).count();
    moved.details["ranges"] = static_cast<double>(copy.receipt.ranges);
    moved.details["copies"] = static_cast<double>(copy.receipt.copies());
    return moved;
  }

  Result<bool> Verify(uint64_t seed) override {
    ONECOPY_ASSIGN_OR_RETURN(const std::vector<std::byte> got, end_.Read());
    return std::all_of(ranges_.pairs.begin(), ranges_.pairs.end(), [&](const RangePair& pair) {
      return !FindWrong(got.data() + pair.destination.offset, pair.source.bytes, seed,
                        pair.source.offset);
    });
  }

 private:
  RangesMover(std::unique_ptr<PayloadFile> file, End end, FileRanges ranges, bool cold)
      : file_(std::move(file)), end_(std::move(end)), ranges_(std::move(ranges)), cold_(cold) {}

  std::unique_ptr<PayloadFile> file_;
  End end_;
  const FileRanges ranges_;
  const bool cold_;
};

Row MeasureRanges(bool cold, const Settings& settings) {
  FileRanges ranges = PlanRanges(settings.bytes);
  const uint64_t bytes = ranges.bytes;
  Row row = {.work = cold ? "storage ranges, cold" : "storage ranges, warm",
             .path = kFileRangesPath,
             .bytes = bytes,
             .ceiling = "one range of as many bytes",
             .target = kFileRangesTarget};
  if (bytes >= kJudgedFileBytes) row.floor = kFileRangesFloor;
  // Two buffers, one copy of it to look at, and both files: one is twice as long.
  const Status room = CheckHostMemory(bytes, 6);
  if (!room.ok()) return NotSetUp(std::move(row), room);
  const auto folder = TempFolder::Create();
  if (!folder.ok()) return NotSetUp(std::move(row), folder.status());
  const auto daemon = Daemon::Start(settings.daemon, "east");
  if (!daemon.ok()) return NotSetUp(std::move(row), daemon.status());
  const Node node = (*daemon)->AsNode();
  const auto ours =
      RangesMover::Create(node, (*folder)->path() + "/ranges", cold, std::move(ranges));
  if (!ours.ok()) return NotSetUp(std::move(row), ours.status());
  const MakeCeiling sequential = [&](const Moved&) -> Result<std::unique_ptr<Mover>> {
    FileMoverParams params;
    params.node = node;
    params.file = (*folder)->path() + "/sequential";
    params.cold = cold;
    ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<FileMover> one, FileMover::Create(params, bytes));
    return std::unique_ptr<Mover>(std::move(one));
  };
  return Compare(std::move(row), **ours, sequential, settings.CompareAt(bytes));
}

}  // namespace

std::vector<Row> StorageRanges(const Settings& settings) {
  return {MeasureRanges(true, settings), MeasureRanges(false, settings)};
}

}  // namespace onecopy::bench
