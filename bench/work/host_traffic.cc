#include "bench/work/host_traffic.h"

namespace onecopy::bench {
namespace {

bool IsHost(const std::string& memory) {
  return memory == "host" || memory == "pinned" || memory == "kernel" || memory == "tls" ||
         memory == "page-cache";
}

double Touches(const Step& step) {
  const bool handed_over = step.loopback && step.from == "kernel" && step.to == "kernel";
  if (handed_over) return 0;
  // A file that the processor reads or writes by itself is memory (tmpfs).
  const auto touched = [&](const std::string& memory) {
    return IsHost(memory) || (memory == "file" && step.by == "cpu");
  };
  return (touched(step.from) ? 1 : 0) + (touched(step.to) ? 1 : 0);
}

}  // namespace

double HostTraffic(const Receipt& receipt, uint64_t payload_bytes) {
  double bytes = 0;
  for (const ExecutedStep& executed : receipt.steps) {
    bytes += Touches(executed.step) * static_cast<double>(executed.bytes);
  }
  return payload_bytes == 0 ? 0 : bytes / static_cast<double>(payload_bytes);
}

}  // namespace onecopy::bench
