#include "bench/work/run_facts.h"

#include <sys/utsname.h>

#include <array>
#include <ctime>
#include <fstream>
#include <map>

#include "onecopy/size.h"
#include "transport/os/machine/machine.h"
#include "transport/shim/cuda.h"

namespace onecopy::bench {
namespace {

std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  utsname names{};
  return ::uname(&names) == 0 ? names.machine : "unknown processor";
}

// "2 × NVIDIA H200", "no GPU"
std::string Gpus(const std::string& cuda_library) {
  const auto api = shim::LoadCuda(cuda_library);
  int count = 0;
  if (!api.ok() || (*api)->DeviceGetCount(&count) != CUDA_SUCCESS) return "no GPU";
  std::map<std::string, int> by_name;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    std::array<char, 128> name{};
    if ((*api)->DeviceGet(&device, i) != CUDA_SUCCESS) continue;
    if ((*api)->DeviceGetName(name.data(), name.size() - 1, device) != CUDA_SUCCESS) continue;
    ++by_name[name.data()];
  }
  std::string text;
  for (const auto& [name, number] : by_name) {
    text += (text.empty() ? "" : ", ") + (number > 1 ? std::to_string(number) + " × " : "") + name;
  }
  return text.empty() ? "no GPU" : text;
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&now, &parts) == nullptr) return {};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace

RunFacts LookAround(const DaemonOptions& daemon, const std::string& version) {
  const unsigned cores = os::UsableCores();
  return {.machine =
              Processor() + ", " + std::to_string(cores) + (cores == 1 ? " core, " : " cores, ") +
              FormatBytes(os::AvailableMemoryBytes()) + " available, " + Gpus(daemon.cuda_library) +
              (daemon.tuned.empty() ? "" : ", settings of " + daemon.tuned),
          .time = Now(),
          .version = version};
}

}  // namespace onecopy::bench
