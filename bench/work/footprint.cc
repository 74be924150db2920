// What the daemons themselves take: memory beside their buffers, and time while nothing happens.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <thread>

#include "bench/daemons/pair.h"
#include "bench/daemons/process_facts.h"
#include "bench/work/peak_memory.h"
#include "bench/work/small_mover.h"
#include "bench/work/transfer_mover.h"
#include "bench/work/works.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kSmallBytes = 64 * 1024;
constexpr double kMaxIdleCores = 0.001;
constexpr std::chrono::seconds kSettle{2};  // until connecting is really over
constexpr std::chrono::milliseconds kStopEvery{100};

// `samples` transfers over tcp between two new daemons; fills in the rows of both.
Status Watch(Row& east_row, Row& west_row, const DaemonOptions& daemon, const Settings& settings) {
  const uint64_t bytes = east_row.bytes;
  ONECOPY_ASSIGN_OR_RETURN(const Pair pair, Pair::Start(daemon));
  ONECOPY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Mover> transfer,
      MakeTransfer({pair.east->AsNode(), "host", pair.west->AsNode(), "host", east_row.path},
                   bytes));
  PeakMemory east(pair.east->pid(), bytes);
  PeakMemory west(pair.west->pid(), bytes);
  bool right = true;
  for (unsigned i = 1; i <= settings.samples; ++i) {
    if (settings.stopped && settings.stopped()) {
      return {Code::kCancelled, reasons::kCancelled, "the run was stopped"};
    }
    ONECOPY_RETURN_IF_ERROR(transfer->Fill(i));
    ONECOPY_RETURN_IF_ERROR(transfer->Move().status());
    ONECOPY_ASSIGN_OR_RETURN(const bool arrived, transfer->Verify(i));
    right = right && arrived;
  }
  east_row.values = {east.Stop()};
  west_row.values = {west.Stop()};
  east_row.verified = west_row.verified = right;
  return OkStatus();
}

using UseByThread = std::map<pid_t, ThreadUse>;

UseByThread ById(const std::vector<ThreadUse>& threads) {
  UseByThread by_id;
  for (const ThreadUse& thread : threads) by_id[thread.id] = thread;
  return by_id;
}

// "rpc-2 0.012 % in 31 wakeups, …": who used the time, the busiest first.
std::string Blame(const std::vector<ThreadUse>& before, const std::vector<ThreadUse>& after,
                  double seconds) {
  const UseByThread earlier = ById(before);
  std::vector<ThreadUse> used;
  for (ThreadUse thread : after) {
    if (const auto found = earlier.find(thread.id); found != earlier.end()) {
      thread.cpu_seconds -= found->second.cpu_seconds;
      thread.wakeups -= found->second.wakeups;
    }
    if (thread.wakeups > 0) used.push_back(thread);
  }
  std::sort(used.begin(), used.end(),
            [](const auto& a, const auto& b) { return a.cpu_seconds > b.cpu_seconds; });
  std::string text;
  for (const ThreadUse& thread : used) {
    char one[96];
    std::snprintf(one, sizeof one, "%s%s %.4f %% in %llu wakeups", text.empty() ? "" : ", ",
                  thread.name.c_str(), thread.cpu_seconds / seconds * 100,
                  static_cast<unsigned long long>(thread.wakeups));
    text += one;
  }
  return text;
}

// A daemon's use of time between two looks.
struct Look {
  std::chrono::steady_clock::time_point when;
  double cpu_seconds = 0;
  std::vector<ThreadUse> threads;
};

Result<Look> LookAt(const Daemon& daemon) {
  Look look;
  ONECOPY_ASSIGN_OR_RETURN(look.threads, ReadThreads(daemon.pid()));
  ONECOPY_ASSIGN_OR_RETURN(look.cpu_seconds, ReadCpuSeconds(daemon.pid()));
  look.when = std::chrono::steady_clock::now();
  return look;
}

void FillIn(Row& row, const Look& before, const Look& after) {
  const double seconds = std::chrono::duration<double>(after.when - before.when).count();
  row.values = {(after.cpu_seconds - before.cpu_seconds) / seconds};
  row.details["seconds"] = seconds;
  row.detail = Blame(before.threads, after.threads, seconds);
}

// Clients whose rings have carried small transfers and stay open: one inside east, one at each end
// between the two.
Result<std::vector<std::unique_ptr<Mover>>> UseRings(const Pair& pair) {
  constexpr Many kFew{.piece_bytes = 4096, .depth = 1, .count = 20};
  const SmallParams all_params[] = {
      {pair.east->AsNode(), "host", pair.east->AsNode(), "host", "local", true},
      {pair.east->AsNode(), "host", pair.west->AsNode(), "host", "tcp-direct", true},
      {.from = pair.east->AsNode(),
       .from_memory = "host",
       .to = pair.west->AsNode(),
       .to_memory = "host",
       .path = "tcp-direct",
       .by_ring = true,
       .asked_by_reader = true}};
  std::vector<std::unique_ptr<Mover>> clients;
  for (const SmallParams& params : all_params) {
    ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Mover> client, MakeSmall(params, kFew));
    ONECOPY_RETURN_IF_ERROR(client->Fill(1));
    ONECOPY_RETURN_IF_ERROR(client->Move().status());
    clients.push_back(std::move(client));
  }
  return clients;
}

Status StandIdle(Row& east_row, Row& west_row, const Settings& settings, bool with_rings) {
  ONECOPY_ASSIGN_OR_RETURN(const Pair pair, Pair::Start(settings.daemon));
  std::vector<std::unique_ptr<Mover>> clients;
  if (with_rings) {
    ONECOPY_ASSIGN_OR_RETURN(clients, UseRings(pair));
  }
  std::this_thread::sleep_for(kSettle);
  ONECOPY_ASSIGN_OR_RETURN(const Look east, LookAt(*pair.east));
  ONECOPY_ASSIGN_OR_RETURN(const Look west, LookAt(*pair.west));
  for (auto waited = std::chrono::milliseconds(0); waited < settings.idle; waited += kStopEvery) {
    if (settings.stopped && settings.stopped()) {
      return {Code::kCancelled, reasons::kCancelled, "the run was stopped"};
    }
    std::this_thread::sleep_for(std::min(kStopEvery, settings.idle - waited));
  }
  ONECOPY_ASSIGN_OR_RETURN(const Look east_after, LookAt(*pair.east));
  ONECOPY_ASSIGN_OR_RETURN(const Look west_after, LookAt(*pair.west));
  FillIn(east_row, east, east_after);
  FillIn(west_row, west, west_after);
  return OkStatus();
}

}  // namespace

std::vector<Row> DaemonMemory(const Settings& settings) {
  const DaemonOptions daemon = WithKnownSlots(settings.daemon);
  const uint64_t limit = MemoryLimit(daemon);
  std::vector<Row> rows;
  for (const uint64_t bytes : {std::min(kSmallBytes, settings.bytes), settings.bytes}) {
    Row east = {.work = "daemon memory east",
                .path = "tcp-direct",
                .bytes = bytes,
                .unit = Unit::kBytes,
                .limit = static_cast<double>(limit)};
    Row west = east;
    west.work = "daemon memory west";
    Status status = CheckHostMemory(settings.bytes, 2);
    if (status.ok()) status = Watch(east, west, daemon, settings);
    for (Row* row : {&east, &west}) {
      rows.push_back(status.ok() ? Evaluated(std::move(*row)) : NotSetUp(std::move(*row), status));
    }
  }
  return rows;
}

std::vector<Row> IdleCpu(const Settings& settings) {
  std::vector<Row> rows;
  for (const bool with_rings : {false, true}) {
    const std::string rings = with_rings ? ", rings open" : "";
    Row east = {.work = "idle cpu east" + rings, .unit = Unit::kCores, .limit = kMaxIdleCores};
    Row west = {.work = "idle cpu west" + rings, .unit = Unit::kCores, .limit = kMaxIdleCores};
    const Status status = StandIdle(east, west, settings, with_rings);
    for (Row* row : {&east, &west}) {
      rows.push_back(status.ok() ? Evaluated(std::move(*row)) : NotSetUp(std::move(*row), status));
    }
  }
  return rows;
}

}  // namespace onecopy::bench
