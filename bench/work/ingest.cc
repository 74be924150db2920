// Tensors from files into memory of a GPU or of the host, by Python: bench/ingest.
#include "bench/tools/ingest_tool.h"
#include "bench/work/works.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kLeastModel = uint64_t{64} << 20;  // for less, starting says more than moving

// Of what is asked for, the sizes that say something about models.
std::vector<uint64_t> ModelSizes(const Settings& settings) {
  std::vector<uint64_t> sizes;
  for (const uint64_t bytes : settings.sizes) {
    if (bytes >= kLeastModel) sizes.push_back(bytes);
  }
  if (sizes.empty()) sizes.push_back(settings.bytes);
  return sizes;
}

}  // namespace

std::vector<Row> Ingest(const Settings& settings) {
  Row row = {.work = "ingest"};
  const Status installed = CheckIngest(settings.competitors);
  if (!installed.ok()) return {Waived(std::move(row), installed)};
  const Result<std::unique_ptr<Daemon>> daemon = Daemon::Start(settings.daemon, "ingest");
  if (!daemon.ok()) return {NotSetUp(std::move(row), daemon.status())};
  const Node node = (*daemon)->AsNode();
  Result<std::vector<Row>> rows = RunIngest({.folder = settings.competitors,
                                             .run_dir = node.run_dir,
                                             .daemon = (*daemon)->pid(),
                                             .sizes = ModelSizes(settings),
                                             .samples = settings.samples,
                                             .stopped = settings.stopped});
  if (rows.ok()) return std::move(*rows);
  return {Failed(std::move(row), rows.status())};
}

}  // namespace onecopy::bench
