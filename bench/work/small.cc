// Small transfers, one by one and many under way: inside a node by a ring, inside a node by gRPC,
// and between nodes.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bench/ceiling/small_peer_copies.h"
#include "bench/ceiling/tcp_ping_pong.h"
#include "bench/ceiling/thread_ping_pong.h"
#include "bench/work/gpus.h"
#include "bench/work/small_mover.h"
#include "bench/work/works.h"

namespace onecopy::bench {
namespace {

constexpr Many kOneByOne{.piece_bytes = 4096, .depth = 1, .count = 2000};
constexpr Many kInFlight{.piece_bytes = 4096, .depth = 256, .count = 8192};
constexpr Many kByGrpc{.piece_bytes = 4096, .depth = 1, .count = 200};
constexpr Many kAfterIdleness{.piece_bytes = 4096, .depth = 1, .count = 3};
constexpr std::chrono::seconds kIdle{1};

Row RowOf(std::string work, std::string path, std::string ceiling, std::optional<double> target) {
  return {.work = std::move(work),
          .path = std::move(path),
          .bytes = kOneByOne.piece_bytes,
          .ceiling = std::move(ceiling),
          .target = target};
}

Row Hold(Row row, const Result<std::unique_ptr<Mover>>& work, const MakeCeiling& ceiling,
         const Settings& settings) {
  if (!work.ok()) return NotSetUp(std::move(row), work.status());
  return Compare(std::move(row), **work, ceiling, settings.compare());
}

// `waived`: for want of GPUs.
Row Without(Row row, const Status& status, bool waived) {
  return waived ? Waived(std::move(row), status) : NotSetUp(std::move(row), status);
}

}  // namespace

std::vector<Row> SmallHostInNode(const Settings& settings) {
  const Result<Environment> environment = Environment::Open(settings.given, settings.daemon);
  std::vector<Row> rows;
  const auto add = [&](Row row, const Many& many, std::chrono::milliseconds idle,
                       const MakeCeiling& ceiling, bool checksum = false) {
    if (!environment.ok()) return rows.push_back(NotSetUp(std::move(row), environment.status()));
    const SmallParams params{.from = environment->here,
                             .from_memory = "host",
                             .to = environment->here,
                             .to_memory = "host",
                             .path = "local",
                             .by_ring = row.ceiling != "empty call",
                             .over_grpc = row.ceiling == "empty call",
                             .checksum = checksum,
                             .idle = idle};
    rows.push_back(Hold(std::move(row), MakeSmall(params, many), ceiling, settings));
  };
  const auto thread = [](const Many& many) {
    return [many](const Moved&) { return ThreadPingPong::Create(many); };
  };
  add(RowOf("small host in node", "local", "thread-ping-pong", {}), kOneByOne, {},
      thread(kOneByOne));
  add(RowOf("small host in node with checksum", "local", "thread-ping-pong", {}), kOneByOne, {},
      thread(kOneByOne), true);
  add(RowOf("small host in node after 1 s", "local", "thread-ping-pong", {}), kAfterIdleness, kIdle,
      thread(kOneByOne));
  add(RowOf("small host in node, 256 in flight", "local", "thread-ping-pong", {}), kInFlight, {},
      thread(kInFlight));
  add(RowOf("small host in node by grpc", "local", "empty call", 0.5), kByGrpc, {},
      [&](const Moved&) { return MakeEmptyCalls(environment->here, kByGrpc); });
  return rows;
}

std::vector<Row> SmallGpuInNode(const Settings& settings) {
  struct Kind {
    const char* work;
    Many many;
    std::chrono::milliseconds idle;
    Many ceiling;
    double target;
  };
  const Kind kinds[] = {
      {"small gpu in node", kOneByOne, {}, kOneByOne, 1 / 1.5},
      {"small gpu in node after 1 s", kAfterIdleness, kIdle, kOneByOne, 0.1},
      {"small gpu in node, 256 in flight", kInFlight, {}, kInFlight, 0.5},
  };
  const Result<Environment> environment = Environment::Open(settings.given, settings.daemon);
  Status status = environment.status();
  bool waived = false;
  std::pair<std::string, std::string> gpus;
  if (status.ok()) {
    const auto found = UsableGpus(environment->here);
    status = found.ok() ? CheckPeers(*found) : found.status();
    waived = !status.ok();
    if (!waived) gpus = {(*found)[0].device, (*found)[1].device};
  }
  std::shared_ptr<Gpu> from;
  std::shared_ptr<Gpu> to;
  if (status.ok()) {
    const auto api = shim::LoadCuda(settings.daemon.cuda_library);
    status = api.status();
    if (status.ok()) {
      auto one = Gpu::Open(*api, gpus.first);
      auto other = Gpu::Open(*api, gpus.second);
      status = one.ok() ? other.status() : one.status();
      if (one.ok()) from = *one;
      if (other.ok()) to = *other;
    }
  }
  std::vector<Row> rows;
  for (const Kind& kind : kinds) {
    Row row = RowOf(kind.work, "peer-direct", "cuMemcpyPeerAsync", kind.target);
    if (!status.ok()) {
      rows.push_back(Without(std::move(row), status, waived));
      continue;
    }
    const SmallParams params{.from = environment->here,
                             .from_memory = gpus.first,
                             .to = environment->here,
                             .to_memory = gpus.second,
                             .path = "peer-direct",
                             .by_ring = true,
                             .idle = kind.idle};
    rows.push_back(Hold(
        std::move(row), MakeSmall(params, kind.many),
        [&](const Moved&) { return SmallPeerCopies::Create(from, to, kind.ceiling); }, settings));
  }
  return rows;
}

std::vector<Row> SmallHostBetweenNodes(const Settings& settings) {
  const Result<Environment> environment = Environment::Open(settings.given, settings.daemon);
  std::vector<Row> rows;
  const auto add = [&](const char* work, bool asked_by_reader, const Many& many, double target,
                       bool checksum = false) {
    Row row = RowOf(work, "tcp-direct", "tcp-ping-pong", target);
    if (!environment.ok()) return rows.push_back(NotSetUp(std::move(row), environment.status()));
    const SmallParams params{.from = environment->here,
                             .from_memory = "host",
                             .to = environment->there,
                             .to_memory = "host",
                             .path = "tcp-direct",
                             .by_ring = true,
                             .asked_by_reader = asked_by_reader,
                             .checksum = checksum};
    rows.push_back(Hold(
        std::move(row), MakeSmall(params, many),
        [&](const Moved&) { return TcpPingPong::Create(many); }, settings));
  };
  add("small host between nodes", true, kOneByOne, 0.25);
  // A checksum may take half as long again.
  add("small host between nodes with checksum", true, kOneByOne, 0.25 / 1.5, true);
  add("small host between nodes, 256 in flight", true, kInFlight, 0.5);
  add("small host between nodes, asked by the source", false, kOneByOne, 0.25);
  add("small host between nodes, asked by the source, with checksum", false, kOneByOne, 0.25 / 1.5,
      true);
  add("small host between nodes, asked by the source, 256 in flight", false, kInFlight, 0.5);
  return rows;
}

// A GPU and another daemon's host memory: each copy is staged at the GPU's end.
std::vector<Row> SmallGpuBetweenNodes(const Settings& settings) {
  struct Kind {
    const char* work;
    bool from_gpu;
    bool asked_by_reader;
    Many many;
    double target;
  };
  const Kind kinds[] = {
      {"small gpu between nodes, to host", true, true, kOneByOne, 0.25},
      {"small gpu between nodes, from host", false, true, kOneByOne, 0.25},
      {"small gpu between nodes, to host, asked by the source", true, false, kOneByOne, 0.17},
      {"small gpu between nodes, from host, asked by the source", false, false, kOneByOne, 0.17},
      {"small gpu between nodes, to host, 256 in flight", true, true, kInFlight, 0.25},
  };
  const Result<Environment> environment = Environment::Open(settings.given, settings.daemon);
  Status status = environment.status();
  bool waived = false;
  std::string gpu;
  if (status.ok()) {
    const auto found = UsableGpus(environment->here);
    status = found.status();
    waived = !status.ok();
    if (!waived) gpu = found->front().device;
  }
  std::vector<Row> rows;
  for (const Kind& kind : kinds) {
    Row row = RowOf(kind.work, "tcp-bounce", "tcp-ping-pong", kind.target);
    if (!status.ok()) {
      rows.push_back(Without(std::move(row), status, waived));
      continue;
    }
    const SmallParams params{.from = environment->here,
                             .from_memory = kind.from_gpu ? gpu : "host",
                             .to = environment->there,
                             .to_memory = kind.from_gpu ? "host" : gpu,
                             .path = "tcp-bounce",
                             .by_ring = true,
                             .asked_by_reader = kind.asked_by_reader};
    rows.push_back(Hold(
        std::move(row), MakeSmall(params, kind.many),
        [&](const Moved&) { return TcpPingPong::Create(kind.many); }, settings));
  }
  return rows;
}

}  // namespace onecopy::bench
