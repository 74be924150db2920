// What it takes to allocate buffers, and to register memory that is there.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "bench/work/gpus.h"
#include "bench/work/works.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kName[] = "bench-registration";

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Makes a buffer of kName.
using MakeBuffer = std::function<Status(Client&)>;

// Times the making of a buffer, and its deletion as the detail delete_seconds.
Row Time(Row row, Client& client, const MakeBuffer& make, const Settings& settings) {
  const CompareOptions options = settings.CompareAt(row.bytes);
  double deletions = 0;
  for (unsigned i = 0; i <= options.samples; ++i) {
    if (settings.stopped && settings.stopped()) {
      return Failed(std::move(row), {Code::kCancelled, reasons::kCancelled, "the run was stopped"});
    }
    const Clock::time_point begin = Clock::now();
    if (const Status made = make(client); !made.ok()) return NotSetUp(std::move(row), made);
    const double seconds = SecondsSince(begin);
    const Clock::time_point end = Clock::now();
    if (const Status gone = client.DeleteBuffer(kName); !gone.ok()) {
      return Failed(std::move(row), gone);
    }
    if (i == 0) continue;  // the warm-up
    deletions += SecondsSince(end);
    row.values.push_back(seconds);
  }
  row.details["delete_seconds"] = deletions / options.samples;
  return Evaluated(std::move(row));
}

Row RowOf(std::string work, uint64_t bytes) {
  return {.work = std::move(work), .bytes = bytes, .unit = Unit::kSeconds};
}

Row AllocateRow(const char* work, const std::string& memory, uint64_t bytes, Client& client,
                const Settings& settings) {
  const Row row = RowOf(work, bytes);
  if (const Status room = CheckHostMemory(bytes, 1); memory == "host" && !room.ok()) {
    return NotSetUp(row, room);
  }
  const MakeBuffer make = [&](Client& asked) {
    return asked.CreateBuffer({.name = kName, .bytes = bytes, .memory = memory}).status();
  };
  return Time(row, client, make, settings);
}

// Resident memory, all of it and slices of it: the whole is registered at each size, and pieces of
// a sixteenth somewhere in the middle.
Row RegisterRow(const char* work, uint64_t bytes, uint64_t offset, int memfd, Client& client,
                const Settings& settings) {
  const MakeBuffer make = [&](Client& asked) {
    return asked.RegisterMemfd(kName, memfd, offset, bytes).status();
  };
  return Time(RowOf(work, bytes), client, make, settings);
}

std::vector<Row> HostRows(uint64_t bytes, Client& client, const Settings& settings) {
  constexpr const char* kWhole = "register host memory";
  constexpr const char* kSlice = "register a slice of host memory";
  constexpr uint64_t kSlices = 16;
  constexpr uint64_t kPage = 4096;
  const uint64_t slice = std::max(bytes / kSlices, uint64_t{1});
  std::vector<Row> rows = {AllocateRow("allocate host memory", "host", bytes, client, settings)};
  const auto neither = [&](const Status& why) {
    rows.push_back(NotSetUp(RowOf(kWhole, bytes), why));
    rows.push_back(NotSetUp(RowOf(kSlice, slice), why));
    return rows;
  };
  if (const Status room = CheckHostMemory(bytes, 1); !room.ok()) return neither(room);
  const Result<os::UniqueFd> memfd = os::SealedMemfd(kName, bytes);
  if (!memfd.ok()) return neither(memfd.status());
  const Result<os::Mapping> mapping = os::MapShared(memfd->get(), bytes);
  if (!mapping.ok()) return neither(mapping.status());
  std::memset(mapping->data(), 1, bytes);
  const uint64_t middle = (bytes - slice) / 2 / kPage * kPage;
  rows.push_back(RegisterRow(kWhole, bytes, 0, memfd->get(), client, settings));
  rows.push_back(RegisterRow(kSlice, slice, middle, memfd->get(), client, settings));
  return rows;
}

// A client's own GPU memory of one kind.
Row RegisterGpuRow(const char* work, GpuMemoryKind kind, const std::shared_ptr<Gpu>& gpu,
                   uint64_t bytes, Client& client, const Settings& settings) {
  const Row row = RowOf(work, bytes);
  const auto memory = GpuMemory::Allocate(gpu, kind, bytes);
  if (!memory.ok()) return NotSetUp(row, memory.status());
  const MakeBuffer make = [&](Client& asked) {
    const shim::ScopedCudaContext scope(gpu->api(), gpu->context());
    return asked.RegisterCuda(kName, (*memory)->address(), bytes).status();
  };
  return Time(row, client, make, settings);
}

std::vector<Row> GpuRows(uint64_t bytes, const Node& node, Client& client,
                         const Settings& settings) {
  constexpr const char* kAllocate = "allocate gpu memory";
  constexpr const char* kMalloc = "register gpu memory of cuMemAlloc";
  constexpr const char* kVmm = "register gpu memory of cuMemCreate";
  const auto none = [&](Row (*as)(Row, const Status&), const Status& why) {
    std::vector<Row> rows;
    for (const char* work : {kAllocate, kMalloc, kVmm}) rows.push_back(as(RowOf(work, bytes), why));
    return rows;
  };
  const auto gpus = UsableGpus(node);
  if (!gpus.ok()) return none(Waived, gpus.status());
  const auto api = shim::LoadCuda(settings.daemon.cuda_library);
  if (!api.ok()) return none(Waived, api.status());
  const auto gpu = Gpu::Open(*api, gpus->front().device);
  if (!gpu.ok()) return none(NotSetUp, gpu.status());
  return {AllocateRow(kAllocate, gpus->front().device, bytes, client, settings),
          RegisterGpuRow(kMalloc, GpuMemoryKind::kMalloc, *gpu, bytes, client, settings),
          RegisterGpuRow(kVmm, GpuMemoryKind::kVmm, *gpu, bytes, client, settings)};
}

}  // namespace

std::vector<Row> Registration(const Settings& settings) {
  const Row all = {.work = "registration", .unit = Unit::kSeconds};
  const Result<Environment> environment = Environment::Open(settings.given, settings.daemon);
  if (!environment.ok()) return {NotSetUp(all, environment.status())};
  // The client library exports GPU memory by the driver that the bench was told to use.
  Result<Client> client = Client::Connect({.run_dir = environment->here.run_dir,
                                           .program = "onecopy-bench",
                                           .cuda_library = settings.daemon.cuda_library});
  if (!client.ok()) return {Failed(all, client.status())};
  std::vector<Row> rows;
  for (const uint64_t bytes : settings.sizes) {
    for (Row& row : HostRows(bytes, *client, settings)) rows.push_back(std::move(row));
    for (Row& row : GpuRows(bytes, environment->here, *client, settings))
      rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace onecopy::bench
