#include "bench/work/rates.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr char kSockets[] = "plain-sockets";
constexpr char kSocketsReused[] = "plain-sockets-reused";
constexpr char kSocketsOrPinned[] = "slower of sockets and pinned copies";

using enum RateEnd;

Rate OverTcp(std::string work, std::string path, RateEnd from, RateEnd to) {
  return {.work = std::move(work),
          .path = std::move(path),
          .between_nodes = true,
          .from = from,
          .to = to,
          .ceiling = from == kHost && to == kHost ? kSocketsReused : kSocketsOrPinned,
          .make_ceiling = StagedCeiling,
          .floor = 0.5,
          .targets = {{kGiB, 0.95}}};
}

Rate OverRdma(std::string work, std::string path, RateEnd from, RateEnd to) {
  return {.work = std::move(work),
          .path = std::move(path),
          .between_nodes = true,
          .from = from,
          .to = to};
}

Rate InNode(std::string work, std::string path, RateEnd from, RateEnd to, std::string ceiling,
            RateCeiling make) {
  return {.work = std::move(work),
          .path = std::move(path),
          .from = from,
          .to = to,
          .ceiling = std::move(ceiling),
          .make_ceiling = make};
}

Rate Peer(std::string ceiling, RateCeiling make) {
  Rate rate = InNode("peer gpu to gpu", "peer-direct", kGpu, kGpu, std::move(ceiling), make);
  rate.floor = 0.9;
  rate.targets = {{kMiB, 0.8}, {16 * kMiB, 0.95}, {kGiB, 0.98}};
  return rate;
}

std::vector<Rate> TcpRates() {
  Rate host = OverTcp("tcp host to host", "tcp-direct", kHost, kHost);
  host.ceiling = kSockets;
  host.make_ceiling = SocketsCeiling;
  host.floor = 0.8;
  return {host, OverTcp("tcp gpu to gpu", "tcp-staged", kGpu, kGpu),
          OverTcp("tcp gpu to host", "tcp-bounce", kGpu, kHost),
          OverTcp("tcp host to gpu", "tcp-bounce", kHost, kGpu),
          OverTcp("tcp host to host, staged", "tcp-staged", kHost, kHost)};
}

std::vector<Rate> NodeRates() {
  Rate one_gpu = InNode("local gpu to gpu", "local", kGpu, kGpu, "", nullptr);
  one_gpu.one_gpu = true;
  Rate bounced =
      InNode("peer gpu to gpu, bounced", "peer-bounce", kGpu, kGpu, "pinned-copies", PinnedCeiling);
  bounced.targets = {{kGiB, 0.95}};
  Rate between = Peer("cuMemcpyPeerAsync-vmm", PeerVmmCeiling);
  between.work = "peer gpu to gpu, between daemons";
  between.between_nodes = true;
  return {InNode("local host to host", "local", kHost, kHost, "memcpy", MemcpyCeiling),
          InNode("local host to gpu", "local", kHost, kGpu, "pinned-copies", PinnedCeiling),
          InNode("local gpu to host", "local", kGpu, kHost, "pinned-copies", PinnedCeiling),
          one_gpu,
          Peer("cuMemcpyPeerAsync-vmm", PeerVmmCeiling),
          Peer("cuMemcpyPeerAsync-malloc", PeerMallocCeiling),
          bounced,
          between};
}

// Without a ceiling: what reads beside them is in the works of RDMA devices, and needs their ports.
std::vector<Rate> RdmaRates() {
  return {OverRdma("ladder rdma host to host", "rdma-direct", kHost, kHost),
          OverRdma("ladder rdma host to host, staged", "rdma-staged", kHost, kHost),
          OverRdma("ladder rdma gpu to gpu", "rdma-direct", kGpu, kGpu),
          OverRdma("ladder rdma gpu to gpu, bounced", "rdma-bounce", kGpu, kGpu),
          OverRdma("ladder rdma gpu to gpu, staged", "rdma-staged", kGpu, kGpu)};
}

}  // namespace

const std::vector<Rate>& DirectRates() {
  static const std::vector<Rate> rates = [] {
    const auto direct = [](std::string what, Rate rate, std::string against) {
      rate.work = "direct to staged, " + std::move(what);
      rate.ceiling = against;
      rate.against = std::move(against);
      rate.floor.reset();
      rate.targets.clear();
      return rate;
    };
    const Rate peer = Peer("", nullptr);
    Rate between = peer;
    between.between_nodes = true;
    return std::vector<Rate>{
        direct("peer", peer, "peer-bounce"),
        direct("peer between daemons", between, "tcp-staged"),
        direct("rdma host", OverRdma("", "rdma-direct", kHost, kHost), "rdma-staged"),
        direct("rdma gpu", OverRdma("", "rdma-direct", kGpu, kGpu), "rdma-staged"),
        direct("rdma gpu to tcp", OverRdma("", "rdma-direct", kGpu, kGpu), "tcp-staged"),
        direct("tcp host", OverTcp("", "tcp-direct", kHost, kHost), "tcp-staged")};
  }();
  return rates;
}

const std::vector<Rate>& AllRates() {
  static const std::vector<Rate> rates = [] {
    std::vector<Rate> all = TcpRates();
    for (auto more : {NodeRates(), RdmaRates()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return rates;
}

}  // namespace onecopy::bench
