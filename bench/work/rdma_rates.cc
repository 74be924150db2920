// Host memory to host memory by RDMA reads, between two devices of this machine.
#include <algorithm>

#include "bench/daemons/pair.h"
#include "bench/tools/perftest.h"
#include "bench/tools/rdma_ports.h"
#include "bench/work/hold.h"
#include "bench/work/works.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::bench {
namespace {

constexpr double kMinDirect = 0.95;
constexpr double kMinStaged = 0.9;
constexpr uint64_t kReads[] = {uint64_t{64} << 10, uint64_t{1} << 20};
// The plain programs have one read's payload, and where there are ports, there is the path.
constexpr HoldOptions kHold = {.payloads_in_memory = 2, .must_be_there = true};

struct Try {
  std::string work;
  std::string path;
  std::string link;
  double floor = 0;
  std::string ceiling;
  Result<std::unique_ptr<Mover>> (*make_ceiling)(const RdmaPorts&, uint64_t bytes,
                                                 uint64_t read_bytes) = nullptr;
};

// `keys` of a section of the configuration, on top of what the caller asked for.
DaemonOptions OptionsFor(const Settings& settings, const RdmaPort& port, const std::string& keys) {
  DaemonOptions options = settings.daemon;
  options.address = port.address;
  options.sections += "[rdma]\ndevices = [\"" + port.device + "\"]\n" + keys;
  return options;
}

Row Measure(const Try& one, const std::string& section, uint64_t read_bytes, const RdmaPorts& ports,
            const Settings& settings) {
  Row row = {.work = one.work + " by " + FormatBytes(read_bytes),
             .path = one.path,
             .bytes = settings.bytes,
             .ceiling = one.ceiling,
             .floor = one.floor};
  const std::string keys = section + settings.link_keys;
  const Result<Pair> pair =
      Pair::Start(OptionsFor(settings, ports.east, keys), OptionsFor(settings, ports.west, keys));
  if (!pair.ok()) return NotSetUp(row, pair.status());
  const MakeCeiling ceiling = [&](const Moved&) {
    return one.make_ceiling(ports, settings.bytes, read_bytes);
  };
  const TransferParams params = {
      pair->east->AsNode(), "host", pair->west->AsNode(), "host", one.path, one.link};
  return HoldTransfer(std::move(row), params, ceiling, settings, kHold).row;
}

// The rows of all reads; where the machine cannot run them, one that says why.
std::vector<Row> MeasureAll(const std::vector<Try>& tries, const Settings& settings,
                            std::string (*section)(uint64_t read_bytes)) {
  const Row none = {.work = tries.front().work,
                    .path = tries.front().path,
                    .bytes = settings.bytes,
                    .ceiling = tries.front().ceiling,
                    .floor = tries.front().floor};
  const Result<RdmaPorts> ports = FindRdmaPorts();
  if (!ports.ok()) return {Waived(none, ports.status())};
  const auto tool = tries.front().make_ceiling(*ports, settings.bytes, kReads[0]);
  if (!tool.ok()) return {Waived(none, tool.status())};
  const Status room = CheckHostMemory(settings.bytes, kHold.payloads_in_memory);
  if (!room.ok()) return {NotSetUp(none, room)};
  std::vector<Row> rows;
  for (const uint64_t read_bytes : kReads) {
    for (const Try& one : tries) {
      rows.push_back(Measure(one, section(read_bytes), read_bytes, *ports, settings));
    }
  }
  return rows;
}

}  // namespace

std::vector<Row> HostOverRdma(const Settings& settings) {
  return MeasureAll(
      {{"rdma host to host", "rdma-direct", "verbs", kMinDirect, "ib_read_bw", MakeReadBw},
       {"rdma host to host, staged", "rdma-staged", "verbs", kMinStaged, "ib_read_bw", MakeReadBw}},
      settings, [](uint64_t read_bytes) {
        return "[verbs]\nread_bytes = " + std::to_string(read_bytes) + "\n";
      });
}

std::vector<Row> HostOverUcx(const Settings& settings) {
  return MeasureAll(
      {{"ucx host to host", "rdma-direct", "ucx", kMinDirect, "ucx_perftest", MakeUcxPerftest}},
      settings, [](uint64_t read_bytes) {
        return "[ucx]\ntransports = [\"rc_verbs\", \"ud_verbs\"]\nchunk_bytes = " +
               std::to_string(read_bytes) + "\n";
      });
}

}  // namespace onecopy::bench
