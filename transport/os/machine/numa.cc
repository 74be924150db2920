#include "transport/os/machine/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "transport/os/machine/sysfs.h"

namespace onecopy::os {
namespace {

constexpr unsigned kMaxCpus = CPU_SETSIZE;
constexpr unsigned kMaxNodes = 1024;

std::optional<unsigned> ParseNumber(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value >= kMaxCpus) return {};
  return value;
}

}  // namespace

std::optional<std::vector<unsigned>> ParseCpuList(std::string_view text) {
  std::vector<unsigned> cpus;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t dash = part.find('-');
    const std::optional<unsigned> first = ParseNumber(part.substr(0, dash));
    const std::optional<unsigned> last =
        dash == std::string_view::npos ? first : ParseNumber(part.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    for (unsigned cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    if (comma == std::string_view::npos) return cpus;
    text.remove_prefix(comma + 1);
    if (text.empty()) return std::nullopt;
  }
  return cpus;
}

bool BindThread(std::string_view cpus) {
  const auto wanted = ParseCpuList(cpus);
  cpu_set_t allowed;
  if (!wanted || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  cpu_set_t both;
  CPU_ZERO(&both);
  for (const unsigned cpu : *wanted) {
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &both);
  }
  return CPU_COUNT(&both) > 0 && ::sched_setaffinity(0, sizeof both, &both) == 0;
}

std::string AllowedCpus() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  std::string list;
  for (unsigned cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    unsigned last = cpu;
    while (last + 1 < kMaxCpus && CPU_ISSET(last + 1, &allowed)) ++last;
    list += (list.empty() ? "" : ",") + std::to_string(cpu);
    if (last > cpu) list += "-" + std::to_string(last);
    cpu = last;
  }
  return list;
}

int32_t NumaNodeOfPage(const std::byte* page) {
  int node = -1;
  const long asked = ::syscall(SYS_get_mempolicy, &node, nullptr, 0, const_cast<std::byte*>(page),
                               MPOL_F_NODE | MPOL_F_ADDR);
  return asked == 0 ? node : -1;
}

size_t NumaNodes(const std::string& root) {
  const auto nodes = ParseCpuList(sysfs::ReadLine(root + "/sys/devices/system/node/online"));
  return nodes && !nodes->empty() ? nodes->size() : 1;
}

bool PreferNumaNode(std::byte* data, uint64_t bytes, int32_t node) {
  if (node < 0 || static_cast<unsigned>(node) >= kMaxNodes) return false;
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMaxNodes / kBits> nodes{};
  nodes[static_cast<size_t>(node) / kBits] |= 1UL << (static_cast<size_t>(node) % kBits);
  return ::syscall(SYS_mbind, data, bytes, MPOL_PREFERRED, nodes.data(), kMaxNodes, 0) == 0;
}

}  // namespace onecopy::os
