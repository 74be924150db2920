#include "daemon/plan/estimates.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "daemon/plan/ladder.h"

namespace onecopy::plan {
namespace {

// A server with 400 Gb/s NICs and GPUs with NVLink, host memory copied by a few threads. Only the
// order matters: nothing is promised by these figures.
struct Default {
  std::string_view path;
  double host_host;  // bytes per second between two host memories, …
  double host_gpu;   // … between host memory and a GPU's, either way, …
  double gpu_gpu;    // … and between two GPUs'; within one GPU for `local`
  double latency_seconds;
};

constexpr std::array<Default, 12> kDefaults = {{
    {"rdma-direct", 45e9, 45e9, 45e9, 5e-6},
    {"peer-direct", 0, 0, 300e9, 10e-6},
    {"local", 12e9, 50e9, 1500e9, 10e-6},
    {"rdma-bounce", 11e9, 40e9, 40e9, 20e-6},
    {"peer-bounce", 6e9, 11e9, 27e9, 25e-6},
    // The ends of a file count as no host memory.
    {"storage-bounce", 3e9, 3e9, 3e9, 100e-6},
    {"storage-direct", 6e9, 6e9, 6e9, 100e-6},
    // Its memory on the way has to be allocated first.
    {kThroughNearGpu, 6e9, 6e9, 6e9, 5e-3},
    {"rdma-staged", 10e9, 11e9, 35e9, 35e-6},
    {"tcp-direct", 8e9, 8e9, 8e9, 60e-6},
    {"tcp-bounce", 6e9, 7e9, 7e9, 80e-6},
    {"tcp-staged", 5e9, 5.5e9, 6e9, 100e-6},
}};

}  // namespace

double Estimate::RateFor(uint64_t bytes) const {
  if (bytes == 0 || bytes_per_second <= 0) return 0;
  const auto payload = static_cast<double>(bytes);
  return payload / (latency_seconds + payload / bytes_per_second);
}

Estimate Estimates::ByTable(const std::string& path, const std::string& from_kind,
                            const std::string& to_kind) {
  if (HasFileThenLink(path)) {
    // Both at once, the slower one sets the speed.
    const Estimate file = ByTable("storage-bounce", from_kind, to_kind);
    Estimate link = ByTable(std::string(RungNameOf(path)), from_kind, to_kind);
    link.bytes_per_second = std::min(link.bytes_per_second, file.bytes_per_second);
    link.latency_seconds += file.latency_seconds;
    return link;
  }
  const int hosts = (from_kind == "host" ? 1 : 0) + (to_kind == "host" ? 1 : 0);
  for (const Default& entry : kDefaults) {
    if (entry.path != path) continue;
    const double rate = hosts == 2 ? entry.host_host : hosts == 1 ? entry.host_gpu : entry.gpu_gpu;
    return {.bytes_per_second = rate, .latency_seconds = entry.latency_seconds};
  }
  return {};
}

const PathRate* Estimates::FindPath(const PathKey& way, uint64_t bytes) const {
  const auto found = paths_.find(way);
  if (found == paths_.end()) return nullptr;
  const PathRates& rates = found->second;
  const size_t wanted = SizeClassOf(bytes);
  for (size_t i = wanted + 1; i-- > 0;) {
    if (rates[i].transfers > 0) return &rates[i];
  }
  for (size_t i = wanted + 1; i < rates.size(); ++i) {
    if (rates[i].transfers > 0) return &rates[i];
  }
  return nullptr;
}

void Estimates::MeasuredWire(const Wire& wire, double bytes_per_second, double latency_seconds,
                             WallTime time) {
  WireResult& result = wires_[wire];
  result.viability = {};
  result.estimate = {.bytes_per_second = bytes_per_second,
                     .latency_seconds = latency_seconds,
                     .measured = true,
                     .time = time};
}

void Estimates::FailedWire(const Wire& wire, Viability why) {
  WireResult& result = wires_[wire];
  result.viability = std::move(why);
  result.estimate = {};
}

void Estimates::ProbedPair(const Wire& wire, const std::string& source_nic,
                           const std::string& destination_nic, PairResult result) {
  wires_[wire].pairs[{source_nic, destination_nic}] = std::move(result);
}

const Estimate* Estimates::FindWire(const Wire& wire) const {
  const auto found = wires_.find(wire);
  return found == wires_.end() || !found->second.estimate.measured ? nullptr
                                                                   : &found->second.estimate;
}

const Viability* Estimates::FindFailure(const Wire& wire) const {
  const auto found = wires_.find(wire);
  return found == wires_.end() || found->second.viability.viable ? nullptr
                                                                 : &found->second.viability;
}

const PairResult* Estimates::FindPair(const Wire& wire, const std::string& source_nic,
                                      const std::string& destination_nic) const {
  const auto found = wires_.find(wire);
  if (found == wires_.end()) return nullptr;
  const auto pair = found->second.pairs.find({source_nic, destination_nic});
  return pair == found->second.pairs.end() ? nullptr : &pair->second;
}

}  // namespace onecopy::plan
