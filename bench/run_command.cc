#include "bench/run_command.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "bench/daemons/daemon.h"
#include "bench/measure/row_csv.h"
#include "bench/measure/row_json.h"
#include "bench/measure/row_table.h"
#include "bench/version.h"
#include "bench/work/run_facts.h"
#include "bench/work/works.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/core/base/duration.h"
#include "transport/core/base/exit_status.h"
#include "transport/os/base/error.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
// 4 GiB, too, where it is asked for: it takes minutes by itself.
constexpr uint64_t kDefaultSizes[] = {4 * kKiB,  64 * kKiB,  kMiB,
                                      16 * kMiB, 256 * kMiB, 1024 * kMiB};

Status BadArgument(std::string what) {
  return {Code::kInvalidArgument, reasons::kBadArgument, std::move(what)};
}

Result<std::vector<uint64_t>> SizesOf(const RunOptions& options) {
  if (!options.size.empty() && !options.sizes.empty()) {
    return BadArgument("give either --size or --sizes");
  }
  std::vector<std::string> texts = options.sizes;
  const char* const flag = options.size.empty() ? "--sizes" : "--size";
  if (!options.size.empty()) texts = {options.size};
  std::vector<uint64_t> sizes;
  for (const std::string& text : texts) {
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(text));
    if (bytes == 0) return BadArgument(std::string(flag) + " must be at least 1");
    sizes.push_back(bytes);
  }
  if (sizes.empty()) sizes.assign(std::begin(kDefaultSizes), std::end(kDefaultSizes));
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// What was measured once for this machine is what its daemons run with, so the bench's do, too. The
// path becomes an absolute one, because the daemons' configuration names it.
Status FindTuned(std::string& file) {
  const bool asked = !file.empty();
  if (!asked) file = kTunedFile;
  if (::access(file.c_str(), R_OK) != 0) {
    if (!asked && errno == ENOENT) return file.clear(), OkStatus();
    return os::ErrnoStatus(errno, "reading " + file);
  }
  file = std::filesystem::absolute(file).string();
  return OkStatus();
}

Result<Settings> SettingsOf(const RunOptions& options, const std::function<bool()>& stopped) {
  Settings settings = options.settings;
  ONECOPY_ASSIGN_OR_RETURN(settings.sizes, SizesOf(options));
  settings.bytes = settings.sizes.back();
  ONECOPY_ASSIGN_OR_RETURN(settings.idle, ParseDuration(options.idle));
  if (settings.idle.count() == 0) return BadArgument("--idle must be longer than 0");
  if (!options.lanes.empty()) settings.lanes = options.lanes;
  for (const std::string& key : options.link_keys) settings.link_keys += key + "\n";
  if (!options.cuda_keys.empty()) settings.daemon.sections += "[cuda]\n";
  for (const std::string& key : options.cuda_keys) settings.daemon.sections += key + "\n";
  if (!options.posix_keys.empty()) settings.daemon.sections += "[posix]\n";
  for (const std::string& key : options.posix_keys) settings.daemon.sections += key + "\n";
  settings.stopped = stopped;
  const bool given = !settings.given.peer.empty();
  if (given && !options.lanes.empty()) {
    return BadArgument(
        "--lanes is for daemons that the bench starts; running daemons have their own [tcp] lanes");
  }
  DaemonOptions& daemon = settings.daemon;
  if (given && (daemon.slots || !options.slot_bytes.empty() || !daemon.tuned.empty())) {
    return BadArgument(
        "--slots, --slot-size and --tuned are for daemons that the bench starts; running daemons "
        "have their own [staging]");
  }
  if (!options.slot_bytes.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(daemon.slot_bytes, ParseBytes(options.slot_bytes));
  }
  if (!given) ONECOPY_RETURN_IF_ERROR(FindTuned(daemon.tuned));
  if (!given && !settings.given.run_dir.empty()) {
    return BadArgument("--run-dir needs --peer NAME, a peer of that daemon");
  }
  if (!given) {
    ONECOPY_ASSIGN_OR_RETURN(settings.daemon.program, DaemonProgram(options.onecopyd));
  }
  return settings;
}

Result<std::vector<Work>> Chosen(const std::string& glob) {
  std::vector<Work> chosen;
  std::string all;
  for (const Work& work : AllWorks()) {
    all += (all.empty() ? "\"" : ", \"") + work.name + "\"";
    // A family goes by its first words: "storage" for "storage read, cold".
    const bool family = work.name.rfind(glob + " ", 0) == 0;
    if (family || ::fnmatch(glob.c_str(), work.name.c_str(), 0) == 0) chosen.push_back(work);
  }
  if (!chosen.empty()) return chosen;
  return BadArgument("no work has a name that matches \"" + glob + "\"; there are " + all);
}

std::vector<Row> RowsOf(const Work& work, const Settings& settings) {
  if (settings.given.peer.empty() || !work.own_daemons) return work.run(settings);
  return {Waived({.work = work.name}, {Code::kFailedPrecondition, reasons::kNotApplicable,
                                       "it needs its own daemons, and --peer names running ones"})};
}

std::vector<Row> Measure(const std::vector<Work>& works, const Settings& settings,
                         std::ostream& progress) {
  std::vector<Row> rows;
  for (const Work& work : works) {
    progress << work.name << " …" << std::flush;
    for (Row& row : RowsOf(work, settings)) {
      progress << ' ' << RowStatusName(row.status);
      rows.push_back(std::move(row));
    }
    progress << std::endl;
    if (settings.stopped()) break;
  }
  return rows;
}

// A file that is opened before minutes of measuring, not after.
class Output {
 public:
  explicit Output(std::string path) : path_(std::move(path)) {
    if (!path_.empty()) file_.open(path_, std::ios::binary);
  }

  Status Opened() const {
    if (path_.empty() || file_) return OkStatus();
    return {Code::kInvalidArgument, reasons::kIo, path_ + " cannot be written"};
  }
  Status Write(const std::string& text) {
    if (path_.empty() || (file_ << text).flush()) return OkStatus();
    return {Code::kInternal, reasons::kIo, "writing " + path_ + " failed"};
  }

 private:
  const std::string path_;
  std::ofstream file_;
};

}  // namespace

Result<int> Run(const RunOptions& options, const std::function<bool()>& stopped,
                const ProgramIo& io) {
  ONECOPY_ASSIGN_OR_RETURN(const Settings settings, SettingsOf(options, stopped));
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<Work> works, Chosen(options.filter));
  // A peer that is not there is an error of the run, not of each of its rows.
  if (!settings.given.peer.empty()) {
    ONECOPY_RETURN_IF_ERROR(Environment::Open(settings.given, {}).status());
  }
  Output json(options.json_file);
  Output csv(options.csv_file);
  ONECOPY_RETURN_IF_ERROR(json.Opened());
  ONECOPY_RETURN_IF_ERROR(csv.Opened());
  const RunFacts facts = LookAround(settings.daemon, ONECOPY_VERSION);
  const std::vector<Row> rows = Measure(works, settings, io.progress);
  PrintTable(rows, io.out);
  io.out.flush();
  ONECOPY_RETURN_IF_ERROR(json.Write(ToJson(rows, facts)));
  ONECOPY_RETURN_IF_ERROR(csv.Write(ToCsv(rows)));
  if (stopped()) return ExitStatusOf(Code::kCancelled);
  const bool failed = std::any_of(rows.begin(), rows.end(),
                                  [](const Row& row) { return row.status == RowStatus::kFailed; });
  return failed ? ExitStatusOf(Code::kUnknown) : 0;
}

}  // namespace onecopy::bench
