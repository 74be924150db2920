// Host memory to host memory, between nodes and inside one.
#include <algorithm>

#include "bench/ceiling/plain_memcpy.h"
#include "bench/ceiling/plain_sockets.h"
#include "bench/daemons/pair.h"
#include "bench/daemons/process_facts.h"
#include "bench/work/transfer_mover.h"
#include "bench/work/works.h"

namespace onecopy::bench {
namespace {

constexpr double kLeastOfPlainSockets = 0.8;
// The work's two ends and the ceiling's two.
constexpr unsigned kPayloadsInMemory = 4;

// The copying threads of a daemon, which its configuration takes from the number of cores.
Result<unsigned> CopyThreads(const Daemon& daemon) {
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<ThreadUse> threads, ReadThreads(daemon.pid()));
  const auto count = std::count_if(threads.begin(), threads.end(), [](const ThreadUse& thread) {
    return thread.name.rfind("copy-", 0) == 0;
  });
  return static_cast<unsigned>(std::max<std::ptrdiff_t>(count, 1));
}

}  // namespace

std::vector<Row> HostOverTcp(const Settings& settings) {
  Row row = {.work = "tcp host to host",
             .path = "tcp-direct",
             .bytes = settings.bytes,
             .ceiling = "plain-sockets",
             .floor = kLeastOfPlainSockets};
  const Status room = CheckHostMemory(settings, kPayloadsInMemory);
  if (!room.ok()) return {NotSetUp(row, room)};
  const Result<Pair> pair = Pair::Start(settings.daemon);
  if (!pair.ok()) return {NotSetUp(row, pair.status())};
  const auto work =
      MakeTransfer({*pair->east, "host", *pair->west, "host", row.path}, settings.bytes);
  if (!work.ok()) return {NotSetUp(row, work.status())};
  const MakeCeiling same_lanes = [&](const Moved& warm_up) {
    return PlainSockets::Create(settings.bytes, warm_up.lanes);
  };
  return {Compare(std::move(row), **work, same_lanes, settings.compare())};
}

std::vector<Row> HostInNode(const Settings& settings) {
  Row row = {
      .work = "local host to host", .path = "local", .bytes = settings.bytes, .ceiling = "memcpy"};
  const Status room = CheckHostMemory(settings, kPayloadsInMemory);
  if (!room.ok()) return {NotSetUp(row, room)};
  const auto daemon = Daemon::Start(settings.daemon, "east");
  if (!daemon.ok()) return {NotSetUp(row, daemon.status())};
  const auto threads = CopyThreads(**daemon);
  if (!threads.ok()) return {Failed(row, threads.status())};
  const auto work = MakeTransfer({**daemon, "host", **daemon, "host", row.path}, settings.bytes);
  if (!work.ok()) return {NotSetUp(row, work.status())};
  row.details["threads"] = *threads;
  const MakeCeiling same_threads = [&](const Moved&) {
    return PlainMemcpy::Create(settings.bytes, *threads);
  };
  return {Compare(std::move(row), **work, same_threads, settings.compare())};
}

}  // namespace onecopy::bench
