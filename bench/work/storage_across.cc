// Files to and from buffers of another node, beside the slower of their two parts alone.
#include <array>

#include "bench/ceiling/slower_of.h"
#include "bench/daemons/pair.h"
#include "bench/daemons/temp_folder.h"
#include "bench/work/file_mover.h"
#include "bench/work/transfer_mover.h"
#include "bench/work/works.h"

namespace onecopy::bench {
namespace {

constexpr double kAcrossFloor = 0.5;
constexpr double kAcrossTarget = 0.9;

struct AcrossWay {
  const char* name;
  bool writes;
  bool cold;
};
constexpr std::array kAcrossWays = {AcrossWay{"storage read across nodes, cold", false, true},
                                    AcrossWay{"storage read across nodes, warm", false, false},
                                    AcrossWay{"storage write across nodes", true, true}};

// East has the files and west the memory.
Result<std::unique_ptr<FileMover>> MakeAcross(const AcrossWay& way, const Pair& pair,
                                              const TempFolder& folder, bool across,
                                              uint64_t bytes) {
  FileMoverParams params;
  params.node = pair.east->AsNode();
  params.file = folder.path() + (across ? "/across" : "/here");
  params.writes = way.writes;
  params.cold = way.cold;
  if (across) {
    params.buffers = pair.west->AsNode();
    params.path = "storage-bounce+tcp-*";
  }
  return FileMover::Create(params, bytes);
}

Result<std::unique_ptr<Mover>> MakeSlower(const AcrossWay& way, const Pair& pair,
                                          const TempFolder& folder, uint64_t bytes) {
  std::vector<SlowerOf::Part> parts(2);
  parts[0].name = "file";
  ONECOPY_ASSIGN_OR_RETURN(parts[0].mover, MakeAcross(way, pair, folder, false, bytes));
  TransferParams wire = {pair.east->AsNode(), "host", pair.west->AsNode(), "host", "tcp-staged"};
  if (way.writes) std::swap(wire.from, wire.to);
  parts[1].name = "wire";
  ONECOPY_ASSIGN_OR_RETURN(parts[1].mover, MakeTransfer(wire, bytes));
  return std::unique_ptr<Mover>(std::make_unique<SlowerOf>(std::move(parts)));
}

Row MeasureAcross(const AcrossWay& way, uint64_t bytes, const Settings& settings) {
  Row row = {.work = way.name,
             .path = "storage-bounce+tcp-*",
             .bytes = bytes,
             .ceiling = "slower of storage-bounce and tcp-staged",
             .target = kAcrossTarget};
  if (bytes >= kJudgedFileBytes) row.floor = kAcrossFloor;
  // Three buffers and three files, in the page cache at the worst.
  const Status room = CheckHostMemory(bytes, 6);
  if (!room.ok()) return NotSetUp(std::move(row), room);
  const auto folder = TempFolder::Create();
  if (!folder.ok()) return NotSetUp(std::move(row), folder.status());
  const Result<Pair> pair = Pair::Start(settings.daemon);
  if (!pair.ok()) return NotSetUp(std::move(row), pair.status());
  const auto ours = MakeAcross(way, *pair, **folder, true, bytes);
  if (!ours.ok()) return NotSetUp(std::move(row), ours.status());
  const MakeCeiling slower = [&](const Moved&) { return MakeSlower(way, *pair, **folder, bytes); };
  return Compare(std::move(row), **ours, slower, settings.CompareAt(bytes));
}

}  // namespace

std::vector<Work> StorageAcrossWorks() {
  std::vector<Work> works;
  for (const AcrossWay& way : kAcrossWays) {
    works.push_back({way.name,
                     [way](const Settings& settings) {
                       return std::vector<Row>{MeasureAcross(way, settings.bytes, settings)};
                     },
                     true});
  }
  return works;
}

}  // namespace onecopy::bench
