#include "client/cli/output/report.h"

#include <sstream>

#include "client/cli/node_report.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;

namespace {

Step Named(const std::string& node, const std::string& from, const std::string& to,
           const std::string& by, bool loopback = false) {
  Step step;
  step.node = node;
  step.from = from;
  step.to = to;
  step.by = by;
  step.loopback = loopback;
  return step;
}

cli::Move OneMove() {
  cli::Move move;
  move.source = "east:a";
  move.destination = "west:b";
  move.bytes = uint64_t{1} << 30;
  move.receipt.path = "tcp-direct";
  move.receipt.link = "tcp";
  move.receipt.seconds = 0.041;
  move.receipt.bytes_per_second = 26.188e9;
  move.receipt.steps = {{Named("east", "host", "kernel", "cpu"), move.bytes},
                        {Named("west", "kernel", "kernel", "wire", true), move.bytes},
                        {Named("west", "kernel", "host", "cpu"), 4096}};
  move.receipt.lanes = {{"lo", "127.0.0.1:7702", move.bytes / 2},
                        {"lo", "127.0.0.1:7702", move.bytes / 2}};
  move.receipt.refused = {{"rdma-direct", "NO_RDMA_DEVICE", "this node has none", "install one"},
                          {"peer-direct", "OTHER_NODE", "the ends are on two nodes", ""},
                          {"rdma-staged", "NO_RDMA_DEVICE", "this node has none", "install one"},
                          {"tcp-staged", "MORE_COPIES", "5 instead of 3", ""},
                          {"storage-direct", "NOT_APPLICABLE", "no file", ""}};
  return move;
}

}  // namespace

TEST_CASE("a receipt for people is compact, and says why nothing better") {
  std::ostringstream out;
  cli::PrintReceipt(out, OneMove());
  CHECK(out.str() ==
        "east:a -> west:b\n"
        "  moved     1 GiB in 41 ms, 26.19 GB/s\n"
        "  path      tcp-direct, 3 copies, link tcp\n"
        "    1  host -> kernel    cpu             on east\n"
        "    2  kernel -> kernel  wire, loopback  on west\n"
        "    3  kernel -> host    cpu             on west  4 KiB\n"
        "  lanes     2 lanes, 1 GiB, lo to 127.0.0.1:7702\n"
        "  why nothing better\n"
        "    rdma-direct, rdma-staged  NO_RDMA_DEVICE  this node has none\n"
        "      try: install one\n"
        "    peer-direct               OTHER_NODE      the ends are on two nodes\n");
}

TEST_CASE("a receipt tells of checksum, failed attempts and emulation where there are any") {
  cli::Move move = OneMove();
  move.receipt.emulated = true;
  move.receipt.checksum = ChecksumResult{"xxh3-128", "00ff", true};
  move.receipt.attempts = {{"rdma-direct", "LINK_DOWN", 4096}, {"tcp-direct", "SUCCEEDED", 1}};
  std::ostringstream out;
  cli::PrintReceipt(out, move);
  CHECK(out.str().find("3 copies, link tcp, emulated\n") != std::string::npos);
  CHECK(out.str().find("  checksum  xxh3-128 00ff, equal at both ends\n") != std::string::npos);
  CHECK(out.str().find("  tried     rdma-direct: LINK_DOWN after 4 KiB\n") != std::string::npos);
}

TEST_CASE("one copy is one copy, and a receipt without steps has none") {
  cli::Move move;
  move.source = "a";
  move.destination = "b";
  move.receipt.path = "local";
  move.receipt.steps = {{Named("east", "host", "host", "cpu"), 0}};
  std::ostringstream one;
  cli::PrintReceipt(one, move);
  CHECK(one.str().find("local, 1 copy\n") != std::string::npos);
  move.receipt.steps.clear();
  std::ostringstream none;
  cli::PrintReceipt(none, move);
  CHECK(none.str().find("local, 0 copies\n") != std::string::npos);
}

TEST_CASE("a plan lists every path that was passed over") {
  Plan plan;
  plan.path = "local";
  plan.steps = {Named("east", "host", "host", "cpu")};
  plan.estimated_bytes_per_second = 12e9;
  plan.refused = OneMove().receipt.refused;
  std::ostringstream out;
  cli::PrintPlan(out, "a", "b", plan);
  CHECK(out.str().find("a -> b\n  path      local, 1 copy\n    1  host -> host  cpu  on east\n"
                       "  estimate  12 GB/s, from a table\n  why no other path\n") == 0);
  CHECK(out.str().find("tcp-staged                MORE_COPIES") != std::string::npos);
  CHECK(out.str().find("storage-direct            NOT_APPLICABLE") != std::string::npos);
}

TEST_CASE("an error says what failed, under its stable name, and what to do") {
  std::ostringstream err;
  cli::PrintError(err, Status(Code::kNotFound, reasons::kBufferNotFound, "there is no buffer a",
                              "see `onecopy buffer ls`"));
  CHECK(err.str() ==
        "onecopy: there is no buffer a [BUFFER_NOT_FOUND]\n"
        "  try: see `onecopy buffer ls`\n");
  std::ostringstream refused;
  cli::PrintError(refused, Status(Code::kFailedPrecondition, reasons::kPolicyUnmet, "no path")
                               .WithRefusals({{"local", "OTHER_NODE", "two nodes", ""}}));
  CHECK(refused.str() ==
        "onecopy: no path [POLICY_UNMET]\n"
        "  why each path was refused\n"
        "    local  OTHER_NODE  two nodes\n");
}

TEST_CASE("nothing that is printed for people can steer their terminal") {
  cli::Move move = OneMove();
  move.source = "\x1b[2J";
  move.receipt.path = "\x1b";
  move.receipt.steps[0].step.from = "\n\x1b";
  move.receipt.lanes[0].device = "\x1b";
  move.receipt.refused[0].detail = "\x1b";
  std::ostringstream out;
  cli::PrintReceipt(out, move);
  cli::PrintError(out, Status(Code::kInternal, "X", "\x1b\n\x1b", "\x1b"));
  CHECK(out.str().find('\x1b') == std::string::npos);
}

TEST_CASE("a node shows what it can use, and why not the rest") {
  NodeInfo node;
  node.name = "east";
  node.self = true;
  node.state = NodeState::kConnected;
  node.version = "1.0";
  node.protocol_min = 1;
  node.protocol_max = 1;
  node.capabilities.emplace();
  MemoryCapability gpu;
  gpu.kind = "cuda";
  gpu.ordinal = 0;
  gpu.name = "NVIDIA H200";
  gpu.device = "GPU-5f";
  gpu.viability = Viability::No("DRIVER_TOO_OLD", "driver 12.2", "install 12.4");
  node.capabilities->memories = {gpu};
  LinkCapability link;
  link.name = "tcp";
  NicCapability nic;
  nic.name = "lo";
  nic.address = "127.0.0.1";
  nic.emulated = true;
  link.nics = {nic};
  node.capabilities->links = {link};
  std::ostringstream out;
  cli::PrintNode(out, node);
  CHECK(out.str().find("  cuda:0  NVIDIA H200, GPU-5f\n"
                       "    not usable: DRIVER_TOO_OLD, driver 12.2\n"
                       "    try: install 12.4\n") != std::string::npos);
  CHECK(out.str().find("  tcp\n    usable\n    lo  127.0.0.1, emulated\n      usable\n") !=
        std::string::npos);
  NodeInfo unknown;
  unknown.name = "west";
  std::ostringstream none;
  cli::PrintNode(none, unknown);
  CHECK(none.str().find("has not reached it yet") != std::string::npos);
}

TEST_CASE("probes are a table of rates, latencies and what did not work") {
  onecopy::ProbeInfo all;
  all.node = "west";
  all.link = "verbs";
  all.source_memory = "cuda";
  all.source_device = "GPU-a";
  all.destination_memory = "host";
  all.bytes_per_second = 47e9;
  all.latency_seconds = 3e-6;
  onecopy::ProbeInfo pair = all;
  pair.source_nic = "mlx5_0";
  pair.destination_nic = "mlx5_1";
  pair.viability = Viability::No("NIC_UNREACHABLE", "transport retry counter exceeded", "");
  std::ostringstream out;
  cli::PrintProbes(out, {all, pair}, "");
  CHECK(out.str().find("GPU-a") != std::string::npos);
  CHECK(out.str().find("47 GB/s") != std::string::npos);
  CHECK(out.str().find("3 us") != std::string::npos);
  CHECK(out.str().find("mlx5_0 > mlx5_1") != std::string::npos);
  CHECK(out.str().find("NIC_UNREACHABLE, transport retry counter exceeded") != std::string::npos);
}

TEST_CASE("the time since the request is printed if it is more than a tenth longer") {
  cli::Move move = OneMove();
  const auto first_lines = [&] {
    std::ostringstream out;
    cli::PrintReceipt(out, move);
    return out.str().substr(0, out.str().find("  path"));
  };
  const std::string moved = "east:a -> west:b\n  moved     1 GiB in 41 ms, 26.19 GB/s";
  for (const double asked : {0.0, 0.041, 0.045}) {
    move.receipt.asked_seconds = asked;
    CHECK(first_lines() == moved + "\n");
  }
  move.receipt.asked_seconds = 0.0452;
  CHECK(first_lines() == moved + "; 45.2 ms after the request\n");
}
