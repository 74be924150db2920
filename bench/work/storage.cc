// Files to and from host memory and GPUs, beside plain programs that read and write as fast as they
// can.
#include <algorithm>
#include <array>
#include <optional>

#include "bench/ceiling/pinned_copy.h"
#include "bench/ceiling/plain_io.h"
#include "bench/ceiling/slower_of.h"
#include "bench/daemons/daemon.h"
#include "bench/daemons/temp_folder.h"
#include "bench/tools/fio.h"
#include "bench/work/cost_rows.h"
#include "bench/work/file_mover.h"
#include "bench/work/gpus.h"
#include "bench/work/works.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kFileMiB = uint64_t{1} << 20;
constexpr const char* kStoragePath = "storage-bounce";
constexpr unsigned kFilePayloads = 4;  // of both ends, and of what stays in the page cache

enum class Against { kRing, kThreads, kFio };

// One way of a file's bytes.
struct Way {
  const char* name;
  bool writes = false;
  bool cold = false;
  bool through_cache = false;
  bool in_memory = false;  // on tmpfs
  bool gpu = false;
  Against against = Against::kRing;
  std::optional<double> floor = {};
  std::optional<double> target = {};
};

constexpr std::array kWays = {
    Way{.name = "read, cold", .cold = true, .floor = 0.6, .target = 0.95},
    Way{.name = "read, cold, page cache", .cold = true, .through_cache = true},
    Way{.name = "read, warm", .against = Against::kThreads, .floor = 0.6, .target = 0.95},
    Way{.name = "write", .writes = true, .floor = 0.6, .target = 0.95},
    Way{.name = "write, page cache",
        .writes = true,
        .through_cache = true,
        .against = Against::kThreads,
        .floor = 0.6,
        .target = 0.95},
    Way{.name = "read, tmpfs",
        .in_memory = true,
        .against = Against::kThreads,
        .floor = 0.6,
        .target = 0.95},
    Way{.name = "write, tmpfs",
        .writes = true,
        .in_memory = true,
        .against = Against::kThreads,
        .floor = 0.6,
        .target = 0.95},
    Way{.name = "read to gpu, cold", .cold = true, .gpu = true, .target = 0.95},
    Way{.name = "read to gpu, warm", .gpu = true, .against = Against::kThreads, .target = 0.95},
    Way{.name = "write from gpu", .writes = true, .gpu = true, .target = 0.95}};

constexpr std::array kFioWays = {
    Way{.name = "read, cold", .cold = true, .against = Against::kFio, .floor = 0.6, .target = 0.95},
    Way{.name = "write", .writes = true, .against = Against::kFio, .floor = 0.6, .target = 0.95}};

// fio moves whole calls only; for less its start says more than its rate.
constexpr uint64_t kFioStep = 16 * kFileMiB;

// Calls under way, or threads that call, and the bytes of each call.
struct Shape {
  unsigned depth;
  uint64_t call_bytes;
};
// Of which the fastest is the ceiling.
constexpr std::array kRingShapes = {Shape{8, kFileMiB}, Shape{16, 4 * kFileMiB},
                                    Shape{32, kFileMiB}, Shape{64, kFileMiB / 4}};
constexpr Shape kThreadsShape = {16, kFileMiB};
// What other programs choose, each measured beside us.
constexpr std::array kPlainShapes = {Shape{1, kFileMiB}, Shape{1, 16 * kFileMiB},
                                     Shape{8, 4 * kFileMiB}, Shape{32, kFileMiB},
                                     Shape{32, 16 * kFileMiB}};

// A daemon, and folders for the files.
class Site {
 public:
  static Result<std::unique_ptr<Site>> Open(const Settings& settings) {
    auto site = std::make_unique<Site>();
    ONECOPY_ASSIGN_OR_RETURN(site->disk_, TempFolder::Create());
    if (Result<std::unique_ptr<TempFolder>> memory = TempFolder::CreateIn("/dev/shm");
        memory.ok()) {
      site->memory_ = std::move(*memory);
    }
    ONECOPY_ASSIGN_OR_RETURN(site->daemon_, Daemon::Start(settings.daemon, "east"));
    return site;
  }

  Node node() const { return daemon_->AsNode(); }
  Result<std::string> File(const Way& way, const char* name) const {
    if (!way.in_memory) return disk_->path() + "/" + name;
    if (memory_ == nullptr) {
      return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                    "there is no tmpfs at /dev/shm");
    }
    return memory_->path() + "/" + name;
  }

 private:
  std::unique_ptr<TempFolder> disk_;
  std::unique_ptr<TempFolder> memory_;
  std::unique_ptr<Daemon> daemon_;  // goes first
};

// What has no ceiling here is WAIVED, as is what cannot run at all.
Row NotHere(Row row, const Status& why) {
  const bool cannot = why.code() == Code::kFailedPrecondition || why.code() == Code::kNotFound;
  return cannot ? Waived(std::move(row), why) : NotSetUp(std::move(row), why);
}

std::string CeilingName(const Way& way) {
  const std::string name = way.against == Against::kRing  ? "io_uring, O_DIRECT"
                           : way.against == Against::kFio ? "fio, io_uring, O_DIRECT"
                           : way.writes                   ? "pwrite by 16 threads"
                                                          : "pread by 16 threads";
  return way.gpu ? "slower of " + name + " and pinned copies" : name;
}

// fio on a payload that was put there just before, as everybody's is.
class FioOnFile final : public Mover {
 public:
  FioOnFile(std::unique_ptr<PayloadFile> file, bool writes, std::unique_ptr<Mover> fio)
      : file_(std::move(file)), writes_(writes), fio_(std::move(fio)) {}
  Status Fill(uint64_t seed) override {
    if (writes_) return OkStatus();
    ONECOPY_RETURN_IF_ERROR(file_->Put(seed));
    return file_->Drop();
  }
  Result<Moved> Move() override { return fio_->Move(); }
  // It looks at nothing, and keeps nothing to be looked at.
  Result<bool> Verify(uint64_t) override { return true; }

 private:
  const std::unique_ptr<PayloadFile> file_;
  const bool writes_;
  const std::unique_ptr<Mover> fio_;
};

Result<std::unique_ptr<Mover>> MakeFioOnFile(const Way& way, const Shape& shape, uint64_t bytes,
                                             const Site& site) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string path, site.File(way, "fio"));
  ONECOPY_ASSIGN_OR_RETURN(auto file, PayloadFile::Plan(path, bytes));
  ONECOPY_ASSIGN_OR_RETURN(auto fio,
                           MakeFio({path, bytes, way.writes, shape.depth, shape.call_bytes}));
  return std::unique_ptr<Mover>(
      std::make_unique<FioOnFile>(std::move(file), way.writes, std::move(fio)));
}

Result<std::unique_ptr<Mover>> MakePlain(const Way& way, const Shape& shape, uint64_t bytes,
                                         const Site& site) {
  if (way.against == Against::kFio) return MakeFioOnFile(way, shape, bytes, site);
  const bool ring = way.against == Against::kRing;
  PlainIoParams params;
  ONECOPY_ASSIGN_OR_RETURN(params.file, site.File(way, "ceiling"));
  params.bytes = bytes;
  params.writes = way.writes;
  params.cold = way.cold;
  params.direct = ring;
  params.ring_depth = ring ? shape.depth : 0;
  params.threads = shape.depth;
  params.call_bytes = shape.call_bytes;
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<PlainIo> plain, PlainIo::Create(params));
  return std::unique_ptr<Mover>(std::move(plain));
}

// Tells beside its figures which shape it has.
class ShapedMover final : public Mover {
 public:
  ShapedMover(std::unique_ptr<Mover> mover, const Shape& shape)
      : mover_(std::move(mover)), shape_(shape) {}
  Status Fill(uint64_t seed) override { return mover_->Fill(seed); }
  Result<bool> Verify(uint64_t seed) override { return mover_->Verify(seed); }
  Result<Moved> Move() override {
    ONECOPY_ASSIGN_OR_RETURN(Moved moved, mover_->Move());
    moved.details["depth"] = shape_.depth;
    moved.details["call_bytes"] = static_cast<double>(shape_.call_bytes);
    return moved;
  }

 private:
  const std::unique_ptr<Mover> mover_;
  const Shape shape_;
};

// The fastest of the shapes, each tried once.
Result<std::unique_ptr<Mover>> MakeFastest(const Way& way, uint64_t bytes, const Site& site) {
  if (way.against == Against::kThreads) {
    ONECOPY_ASSIGN_OR_RETURN(auto plain, MakePlain(way, kThreadsShape, bytes, site));
    return std::unique_ptr<Mover>(std::make_unique<ShapedMover>(std::move(plain), kThreadsShape));
  }
  std::optional<double> least;
  Shape best = kRingShapes.front();
  for (const Shape& shape : kRingShapes) {
    ONECOPY_ASSIGN_OR_RETURN(const auto plain, MakePlain(way, shape, bytes, site));
    ONECOPY_RETURN_IF_ERROR(plain->Fill(0));
    ONECOPY_ASSIGN_OR_RETURN(const Moved moved, plain->Move());
    if (least && moved.seconds >= *least) continue;
    least = moved.seconds;
    best = shape;
  }
  ONECOPY_ASSIGN_OR_RETURN(auto plain, MakePlain(way, best, bytes, site));
  return std::unique_ptr<Mover>(std::make_unique<ShapedMover>(std::move(plain), best));
}

Result<std::unique_ptr<Mover>> MakeCeilingOf(const Way& way, uint64_t bytes, const Site& site,
                                             const std::string& gpu, const Settings& settings) {
  ONECOPY_ASSIGN_OR_RETURN(auto fastest, MakeFastest(way, bytes, site));
  if (!way.gpu) return fastest;
  ONECOPY_ASSIGN_OR_RETURN(const auto api, shim::LoadCuda(settings.daemon.cuda_library));
  ONECOPY_ASSIGN_OR_RETURN(const auto opened, Gpu::Open(api, gpu));
  std::vector<SlowerOf::Part> parts(2);
  parts[0] = {"file", std::move(fastest)};
  parts[1].name = "pinned_copies";
  const PinnedWay pinned = way.writes ? PinnedWay::kToHost : PinnedWay::kFromHost;
  ONECOPY_ASSIGN_OR_RETURN(parts[1].mover,
                           PinnedCopy::Create(way.writes ? opened : nullptr,
                                              way.writes ? nullptr : opened, pinned, bytes, 1));
  return std::unique_ptr<Mover>(std::make_unique<SlowerOf>(std::move(parts)));
}

Row StorageRow(const Way& way, uint64_t bytes) {
  Row row = {.work = std::string("storage ") + way.name,
             .path = kStoragePath,
             .bytes = bytes,
             .ceiling = CeilingName(way)};
  if (way.against == Against::kFio) row.work += ", against fio";
  if (bytes >= kJudgedFileBytes) {
    row.floor = way.floor;
    row.target = way.target;
  }
  return row;
}

Result<std::unique_ptr<FileMover>> MakeOurs(const Way& way, uint64_t bytes, const Site& site,
                                            std::string& gpu) {
  ONECOPY_RETURN_IF_ERROR(CheckHostMemory(bytes, kFilePayloads));
  FileMoverParams params;
  params.node = site.node();
  ONECOPY_ASSIGN_OR_RETURN(params.file, site.File(way, "file"));
  params.writes = way.writes;
  params.cold = way.cold;
  params.through_cache = way.through_cache;
  if (way.gpu) {
    ONECOPY_ASSIGN_OR_RETURN(const auto gpus, UsableGpus(params.node));
    params.memory = gpu = gpus.front().device;
  }
  return FileMover::Create(params, bytes);
}

Compared MeasureWay(const Way& way, uint64_t bytes, const Site& site, const Settings& settings) {
  Row row = StorageRow(way, bytes);
  std::string gpu;
  const auto ours = MakeOurs(way, bytes, site, gpu);
  if (!ours.ok()) return {.row = NotHere(std::move(row), ours.status())};
  Result<std::unique_ptr<Mover>> ceiling = MakeCeilingOf(way, bytes, site, gpu, settings);
  if (!ceiling.ok()) return {.row = NotHere(std::move(row), ceiling.status())};
  const MakeCeiling make = [&](const Moved&) -> Result<std::unique_ptr<Mover>> {
    return std::move(*ceiling);
  };
  return CompareWithCpu(std::move(row), **ours, make, settings.CompareAt(bytes));
}

// A plain program of that shape, and ours in the same breath as its ceiling.
Row MeasurePlain(const Way& way, const Shape& shape, uint64_t bytes, const Site& site,
                 const Settings& settings) {
  Row row = {.work = std::string("storage plain ") + way.name + ", " + std::to_string(shape.depth) +
                     " x " + FormatBytes(shape.call_bytes),
             .path = "pread",
             .bytes = bytes,
             .ceiling = "onecopy storage-bounce"};
  std::string gpu;
  auto ours = MakeOurs(way, bytes, site, gpu);
  if (!ours.ok()) return NotHere(std::move(row), ours.status());
  const auto plain = MakePlain(way, shape, bytes, site);
  if (!plain.ok()) return NotHere(std::move(row), plain.status());
  const MakeCeiling make = [&](const Moved&) -> Result<std::unique_ptr<Mover>> {
    return std::unique_ptr<Mover>(std::move(*ours));
  };
  return Compare(std::move(row), **plain, make, settings.CompareAt(bytes));
}

std::vector<Row> PlainReads(const Settings& settings) {
  std::vector<Row> rows;
  const Result<std::unique_ptr<Site>> site = Site::Open(settings);
  if (!site.ok()) return {NotSetUp({.work = "storage plain", .path = "pread"}, site.status())};
  for (const bool cold : {true, false}) {
    const Way way{
        .name = cold ? "read, cold" : "read, warm", .cold = cold, .against = Against::kThreads};
    for (const Shape& shape : kPlainShapes) {
      if (!rows.empty() && settings.stopped && settings.stopped()) return rows;
      rows.push_back(MeasurePlain(way, shape, settings.bytes, **site, settings));
    }
  }
  return rows;
}

std::vector<Row> MeasureSizes(const Way& way, const Settings& settings) {
  std::vector<Row> rows;
  const Result<std::unique_ptr<Site>> site = Site::Open(settings);
  const bool fio = way.against == Against::kFio;
  // A program's start says nothing about small files.
  const std::vector<uint64_t> sizes =
      fio ? std::vector{std::max(settings.bytes / kFioStep * kFioStep, kFioStep)} : settings.sizes;
  Compared largest;
  for (const uint64_t bytes : sizes) {
    if (!rows.empty() && settings.stopped && settings.stopped()) break;
    Compared compared = site.ok()
                            ? MeasureWay(way, bytes, **site, settings)
                            : Compared{.row = NotSetUp(StorageRow(way, bytes), site.status())};
    rows.push_back(compared.row);
    if (largest.row.values.empty() || !compared.row.values.empty()) largest = std::move(compared);
  }
  if (!fio) AddCostRows(largest, CeilingName(way), rows);
  return rows;
}

}  // namespace

std::vector<Work> StorageWorks() {
  std::vector<Work> works;
  const auto add = [&](const Way& way) {
    works.push_back({StorageRow(way, 0).work,
                     [way](const Settings& settings) { return MeasureSizes(way, settings); },
                     true});
  };
  for (const Way& way : kWays) add(way);
  for (const Way& way : kFioWays) add(way);
  works.push_back({"storage ranges", StorageRanges, true});
  for (const auto& more : {StorageDirectWorks(), StorageToEachWorks(), StorageAcrossWorks()}) {
    works.insert(works.end(), more.begin(), more.end());
  }
  works.push_back({"storage plain", PlainReads, true});
  works.push_back({"storage daemon memory", SparseMemory, true});
  return works;
}

}  // namespace onecopy::bench
