// Files and a GPU's memory with one copy, by the drive, beside the same through slots, and beside
// gdsio.
#include <algorithm>
#include <chrono>
#include <thread>

#include "bench/daemons/daemon.h"
#include "bench/daemons/temp_folder.h"
#include "bench/tools/gdsio.h"
#include "bench/work/cost_rows.h"
#include "bench/work/file_mover.h"
#include "bench/work/gpus.h"
#include "bench/work/works.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

constexpr const char* kDirect = "storage-direct";
constexpr const char* kBounce = "storage-bounce";
constexpr double kDirectFloor = 0.8;
constexpr double kDirectTarget = 0.95;
// The daemon tries the library in a process of its own, after its start.
constexpr std::chrono::seconds kTrialLimit{60};
constexpr std::chrono::milliseconds kTrialPoll{50};

struct DirectWay {
  const char* name;
  bool writes;
  bool gdsio;
};

Row DirectRow(const DirectWay& way, uint64_t bytes) {
  Row row = {.work = way.name,
             .path = kDirect,
             .bytes = bytes,
             .ceiling = way.gdsio ? "gdsio, 16 threads x 4 MiB" : kBounce};
  if (way.gdsio && bytes >= kJudgedFileBytes) {
    row.floor = kDirectFloor;
    row.target = kDirectTarget;
  }
  return row;
}

// Until the daemon knows what its libcufile is worth.
Status AwaitTrial(const Node& node) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, node.Connect());
  const auto end = std::chrono::steady_clock::now() + kTrialLimit;
  while (std::chrono::steady_clock::now() < end) {
    ONECOPY_ASSIGN_OR_RETURN(const NodeInfo info, client.GetNode());
    bool known = true;
    for (const StoreCapability& store : info.capabilities.value_or(NodeCapability{}).stores) {
      known = known && store.viability.reason != reasons::kNotYetKnown;
    }
    if (known) return OkStatus();
    std::this_thread::sleep_for(kTrialPoll);
  }
  return {Code::kDeadlineExceeded, reasons::kNotYetKnown,
          "the daemon has not found out what its libcufile is worth"};
}

struct DirectSite {
  std::unique_ptr<TempFolder> folder;
  std::unique_ptr<Daemon> daemon;
  MemoryCapability gpu;

  static Result<std::unique_ptr<DirectSite>> Open(const Settings& settings) {
    auto site = std::make_unique<DirectSite>();
    ONECOPY_ASSIGN_OR_RETURN(site->folder, TempFolder::Create());
    ONECOPY_ASSIGN_OR_RETURN(site->daemon, Daemon::Start(settings.daemon, "east"));
    const Node node = site->daemon->AsNode();
    ONECOPY_ASSIGN_OR_RETURN(const auto gpus, UsableGpus(node));
    site->gpu = gpus.front();
    ONECOPY_RETURN_IF_ERROR(AwaitTrial(node));
    return site;
  }

  Result<std::unique_ptr<FileMover>> Make(const DirectWay& way, const char* path,
                                          uint64_t bytes) const {
    FileMoverParams params;
    params.node = daemon->AsNode();
    params.memory = gpu.device;
    params.path = path;
    params.file = folder->path() + "/" + path;
    params.writes = way.writes;
    params.cold = !way.writes;
    return FileMover::Create(params, bytes);
  }
};

// gdsio on a file that is there, and not in the page cache.
class GdsioOnFile final : public Mover {
 public:
  GdsioOnFile(std::unique_ptr<PayloadFile> file, bool writes, std::unique_ptr<Mover> gdsio)
      : file_(std::move(file)), writes_(writes), gdsio_(std::move(gdsio)) {}
  Status Fill(uint64_t seed) override {
    if (writes_) return file_->MakeEmpty();
    ONECOPY_RETURN_IF_ERROR(file_->Put(seed));
    return file_->Drop();
  }
  Result<Moved> Move() override { return gdsio_->Move(); }
  Result<bool> Verify(uint64_t) override { return true; }  // it looks at nothing

 private:
  const std::unique_ptr<PayloadFile> file_;
  const bool writes_;
  const std::unique_ptr<Mover> gdsio_;
};

Result<std::unique_ptr<Mover>> MakeGdsioOnFile(const DirectWay& way, uint64_t bytes,
                                               const DirectSite& site) {
  const std::string path = site.folder->path() + "/gdsio";
  ONECOPY_ASSIGN_OR_RETURN(auto file, PayloadFile::Plan(path, bytes));
  ONECOPY_ASSIGN_OR_RETURN(
      auto gdsio,
      MakeGdsio({.file = path, .bytes = bytes, .writes = way.writes, .gpu = site.gpu.ordinal}));
  return std::unique_ptr<Mover>(
      std::make_unique<GdsioOnFile>(std::move(file), way.writes, std::move(gdsio)));
}

std::vector<Row> MeasureDirect(const DirectWay& way, const Settings& settings) {
  // Whole MiB, as gdsio moves them.
  const uint64_t bytes =
      way.gdsio ? std::max(settings.bytes >> 20, uint64_t{1}) << 20 : settings.bytes;
  Row row = DirectRow(way, bytes);
  const Status room = CheckHostMemory(bytes, 4);
  if (!room.ok()) return {NotSetUp(std::move(row), room)};
  const auto site = DirectSite::Open(settings);
  if (!site.ok()) {
    const bool none = site.status().code() == Code::kFailedPrecondition ||
                      site.status().code() == Code::kNotFound;
    return {none ? Waived(std::move(row), site.status()) : NotSetUp(std::move(row), site.status())};
  }
  const auto ours = (*site)->Make(way, kDirect, bytes);
  if (!ours.ok()) return {NotSetUp(std::move(row), ours.status())};
  if (const Status able = (*ours)->Plan(); !able.ok()) return {Waived(std::move(row), able)};
  Result<std::unique_ptr<Mover>> beside = [&]() -> Result<std::unique_ptr<Mover>> {
    if (way.gdsio) return MakeGdsioOnFile(way, bytes, **site);
    ONECOPY_ASSIGN_OR_RETURN(auto bounce, (*site)->Make(way, kBounce, bytes));
    return std::unique_ptr<Mover>(std::move(bounce));
  }();
  if (!beside.ok()) return {Waived(std::move(row), beside.status())};
  const MakeCeiling make = [&](const Moved&) -> Result<std::unique_ptr<Mover>> {
    return std::move(*beside);
  };
  Compared compared = CompareWithCpu(std::move(row), **ours, make, settings.CompareAt(bytes));
  std::vector<Row> rows = {compared.row};
  if (!way.gdsio) AddCostRows(compared, kBounce, rows);
  return rows;
}

}  // namespace

std::vector<Work> StorageDirectWorks() {
  std::vector<Work> works;
  for (const DirectWay& way :
       {DirectWay{"storage direct read to gpu, cold", false, false},
        DirectWay{"storage direct write from gpu", true, false},
        DirectWay{"storage direct read to gpu, cold, against gdsio", false, true},
        DirectWay{"storage direct write from gpu, against gdsio", true, true}}) {
    works.push_back(
        {way.name, [way](const Settings& settings) { return MeasureDirect(way, settings); }, true});
  }
  return works;
}

}  // namespace onecopy::bench
