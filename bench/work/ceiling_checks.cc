// Whether our own plain loops, which are the ceilings, are as fast as programs that others wrote.
#include <algorithm>

#include "bench/ceiling/plain_file.h"
#include "bench/ceiling/plain_memcpy.h"
#include "bench/ceiling/plain_sockets.h"
#include "bench/daemons/temp_folder.h"
#include "bench/tools/host_tools.h"
#include "bench/work/rate_ceilings.h"
#include "bench/work/works.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

constexpr double kMinOfTool = 0.95;
constexpr uint64_t kCallBytes = uint64_t{256} << 10;  // of sockets, at both
constexpr uint64_t kReadBytes = uint64_t{1} << 20;    // of files, at both
constexpr uint64_t kPage = 4096;
// nvbandwidth's loop: so many copies, one after the other, for each sample. The first one after a
// pause takes longer, which its warm-up does not show.
constexpr unsigned kGpuCopies = 16;
// The tools take their time to begin, and say little about less or more than this.
constexpr uint64_t kMinBytes = uint64_t{16} << 20;
constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;
constexpr unsigned kPayloadsInMemory = 4;  // the loop's and the tool's

using MoverOr = Result<std::unique_ptr<Mover>>;

Row RowOf(const std::string& what, uint64_t bytes, const char* tool) {
  return {.work = "ceiling check: " + what, .bytes = bytes, .ceiling = tool, .floor = kMinOfTool};
}

Row NotMade(Row row, const Status& why) {
  const bool cannot = why.code() == Code::kFailedPrecondition;
  return cannot ? Waived(std::move(row), why) : NotSetUp(std::move(row), why);
}

// A tool that is not installed cannot be compared with.
Row Check(Row row, const Result<std::unique_ptr<Mover>>& loop, MoverOr tool,
          const Settings& settings) {
  if (!loop.ok()) return NotMade(std::move(row), loop.status());
  if (!tool.ok()) {
    const bool missing = tool.status().code() == Code::kNotFound;
    return missing ? Waived(std::move(row), tool.status()) : Failed(std::move(row), tool.status());
  }
  const MakeCeiling make = [&](const Moved&) -> MoverOr { return std::move(*tool); };
  return Compare(std::move(row), **loop, make, settings.compare());
}

Row CheckSockets(unsigned lanes, uint64_t bytes, const Settings& settings) {
  const Row row =
      RowOf("sockets against iperf3, " + std::to_string(lanes) + (lanes == 1 ? " lane" : " lanes"),
            bytes, "iperf3");
  return Check(row,
               PlainSockets::Create(
                   {.bytes = bytes, .lanes = lanes, .call_bytes = kCallBytes, .reused = true}),
               MakeIperf3(bytes, lanes, kCallBytes), settings);
}

Row CheckFiles(uint64_t bytes, const Settings& settings) {
  const uint64_t most = std::min(bytes, kMaxFileBytes) / kPage * kPage;
  const Row row = RowOf("file reads against fio", most, "fio");
  const auto folder = TempFolder::Create();
  if (!folder.ok()) return NotSetUp(row, folder.status());
  auto file = PlainFile::Create((*folder)->path() + "/file", most, kReadBytes);
  if (!file.ok()) return NotMade(row, file.status());
  auto tool = MakeFioRead((*file)->file(), most, kReadBytes);
  return Check(row, std::unique_ptr<Mover>(std::move(*file)), std::move(tool), settings);
}

struct GpuCheck {
  const char* what;
  const char* test;  // nvbandwidth's
  bool from = false;
  bool to = false;
  RateCeiling loop;
};

Row CheckGpu(const GpuCheck& check, uint64_t bytes, const Settings& settings) {
  const Row row = RowOf(check.what, bytes, "nvbandwidth");
  const auto api = shim::LoadCuda(settings.daemon.cuda_library);
  if (!api.ok()) return Waived(row, api.status());
  int count = 0;
  if ((*api)->DeviceGetCount(&count) != CUDA_SUCCESS || count < (check.from && check.to ? 2 : 1)) {
    const bool peer = check.from && check.to && count == 1;
    return Waived(row, {Code::kFailedPrecondition, reasons::kNoGpu,
                        peer ? "this needs two GPUs, and there is one" : "there is no GPU"});
  }
  std::string names;
  std::vector<std::shared_ptr<Gpu>> gpus;
  for (CUdevice device = 0; device < std::min(count, 2); ++device) {
    const auto uuid = shim::ReadCudaUuid(**api, device);
    if (!uuid.ok()) return Failed(row, uuid.status());
    const auto gpu = Gpu::Open(*api, uuid->text);
    if (!gpu.ok()) return Failed(row, gpu.status());
    gpus.push_back(*gpu);
    if (device == 0 || (check.from && check.to)) names += (device == 0 ? "" : ",") + uuid->text;
  }
  const RateSetting setting = {.bytes = bytes,
                               .from = check.from ? gpus.front() : nullptr,
                               .to = !check.to    ? nullptr
                                     : check.from ? gpus.back()
                                                  : gpus.front(),
                               .gpu_copies = kGpuCopies};
  // Both directions of two GPUs, each on its own, are two results.
  const unsigned results = check.from && check.to ? 2 : 1;
  return Check(row, check.loop(setting, {}), MakeNvbandwidth(check.test, names, results, bytes),
               settings);
}

}  // namespace

std::vector<Row> CeilingChecks(const Settings& settings) {
  const uint64_t bytes = std::max(settings.bytes, kMinBytes);
  const GpuCheck gpu_checks[] = {
      {"pinned copies to the host against nvbandwidth", "device_to_host_memcpy_ce", true, false,
       PinnedCeiling},
      {"pinned copies from the host against nvbandwidth", "host_to_device_memcpy_ce", false, true,
       PinnedCeiling},
      {"peer copies against nvbandwidth", "device_to_device_memcpy_write_ce", true, true,
       PeerMallocCeiling}};
  const Status room = CheckHostMemory(bytes, kPayloadsInMemory);
  std::vector<Row> rows;
  const auto add = [&](const std::function<Row()>& check) {
    if (!settings.stopped || !settings.stopped()) rows.push_back(check());
  };
  for (const unsigned lanes : {1U, 4U}) add([&] { return CheckSockets(lanes, bytes, settings); });
  add([&] {
    const Row row = RowOf("memcpy against mbw", bytes, "mbw");
    if (!room.ok()) return NotSetUp(row, room);
    return Check(row, PlainMemcpy::Create(bytes, 1, true), MakeMbw(bytes), settings);
  });
  add([&] { return CheckFiles(bytes, settings); });
  for (const GpuCheck& check : gpu_checks) {
    add([&] {
      if (!room.ok()) return NotSetUp(RowOf(check.what, bytes, "nvbandwidth"), room);
      return CheckGpu(check, bytes, settings);
    });
  }
  return rows;
}

}  // namespace onecopy::bench
