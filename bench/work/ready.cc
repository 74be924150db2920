// From the start of onecopyd to its line that it serves.
#include <algorithm>

#include "bench/work/works.h"
#include "onecopy/reasons.h"
#include "transport/shim/cuda.h"

namespace onecopy::bench {
namespace {

constexpr unsigned kMinStarts = 5;
constexpr double kMaxSeconds = 1;
// Names no file, so that the daemon finds no driver wherever it runs.
constexpr char kNoDriver[] = "/nonexistent/libcuda.so.1";

Row StartSeveral(Row row, const Settings& settings) {
  for (unsigned i = 0; i < std::max(settings.samples, kMinStarts); ++i) {
    if (settings.stopped && settings.stopped()) {
      return Failed(std::move(row), {Code::kCancelled, reasons::kCancelled, "the run was stopped"});
    }
    const auto daemon = Daemon::Start(settings.daemon, "east");
    if (!daemon.ok()) return Failed(std::move(row), daemon.status());
    row.values.push_back((*daemon)->ready_seconds());
  }
  return Evaluated(std::move(row));
}

}  // namespace

std::vector<Row> ReadyTime(const Settings& settings) {
  Row without = {.work = "ready without gpu", .unit = Unit::kSeconds, .limit = kMaxSeconds};
  Settings no_driver = settings;
  no_driver.daemon.cuda_library = kNoDriver;
  std::vector<Row> rows = {StartSeveral(std::move(without), no_driver)};
  // The driver looks at its devices first, which is its own time: no limit.
  Row with = {.work = "ready with gpu", .unit = Unit::kSeconds};
  const auto driver = shim::LoadCuda(settings.daemon.cuda_library);
  rows.push_back(driver.ok() ? StartSeveral(std::move(with), settings)
                             : Waived(std::move(with), driver.status()));
  return rows;
}

}  // namespace onecopy::bench
