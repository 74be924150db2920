#include "transport/store/cufile/probe.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "onecopy/reasons.h"
#include "transport/os/threads/helper_process.h"
#include "transport/store/cufile/probe_child.h"

namespace onecopy::cufile {
namespace {

// What a child has said, and how it ended.
struct Said {
  os::HelperOutcome outcome;
  std::map<std::string, std::string> values;

  std::string Get(const std::string& key) const {
    const auto found = values.find(key);
    return found == values.end() ? std::string() : found->second;
  }
  bool has(const std::string& key) const { return values.contains(key); }
};

Said Ask(const ProbeOptions& options, const char* mode) {
  // The library writes its log where it runs.
  std::string folder = std::filesystem::temp_directory_path() / "onecopy-cufile-XXXXXX";
  const bool made = ::mkdtemp(folder.data()) != nullptr;
  os::HelperRequest request;
  request.arguments = options.program;
  for (const std::string& argument :
       {options.library, options.cuda_library, options.folder, std::string(mode)}) {
    request.arguments.push_back(argument);
  }
  if (made) request.folder = folder;
  request.limit = options.limit;
  const Result<os::HelperOutcome> ran = os::RunHelper(request);
  std::error_code ignored;
  if (made) std::filesystem::remove_all(folder, ignored);
  Said said;
  if (!ran.ok()) {
    said.values["reason"] = std::string(reasons::kDriverFailed);
    said.values["detail"] = ran.status().message();
    return said;
  }
  said.outcome = *ran;
  std::istringstream lines(ran->output);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find('=');
    if (at != std::string::npos) said.values[line.substr(0, at)] = line.substr(at + 1);
  }
  return said;
}

std::string LibraryOf(const Said& said) {
  const std::string version = said.Get("version");
  return "libcufile" + (version.empty() ? "" : " " + version);
}

Viability Crashed(const Said& said, const ProbeOptions& options) {
  const std::string step = said.Get("step");
  return Viability::No(reasons::kDriverFailed,
                       LibraryOf(said) + " " + said.outcome.Describe(options.limit) +
                           (step.empty() ? "" : " while " + step) +
                           ", in a process of its own: it is not used",
                       "check that gdscheck -p works, or set use = \"off\" under [cufile]");
}

// What of this machine explains compatibility mode.
std::string Explain(const ProbeOptions& options) {
  std::string text;
  if (!std::filesystem::exists(options.root + "/proc/driver/nvidia-fs")) {
    text += "nvidia-fs is not loaded";
  }
  std::ifstream symbols(options.root + "/proc/kallsyms");
  bool p2pdma = false;
  for (std::string line; std::getline(symbols, line) && !p2pdma;) {
    p2pdma = line.find(" p2pdma_pgmap_ops") != std::string::npos;
  }
  if (!p2pdma) {
    text += std::string(text.empty() ? "" : ", and ") +
            "the kernel has no peer-to-peer DMA (CONFIG_PCI_P2PDMA)";
  }
  return text;
}

Viability CompatibilityOnly(const Said& said, const ProbeOptions& options) {
  const std::string why = Explain(options);
  return Viability::No(
      reasons::kCompatibilityMode,
      LibraryOf(said) + " works only in compatibility mode, through host memory" +
          (why.empty() ? "" : ": " + why),
      "load nvidia-fs (modprobe nvidia-fs; package nvidia-fs or nvidia-gds), or use a kernel with "
      "CONFIG_PCI_P2PDMA and an NVMe drive; onecopy doctor lists what is missing");
}

// Of a library that does not open its driver strictly.
Viability Closed(const Said& strict, const ProbeOptions& options) {
  const Said lenient = Ask(options, kLenient);
  if (lenient.Get("driver") == "OK") return CompatibilityOnly(lenient, options);
  if (!lenient.outcome.ended || lenient.outcome.signal != 0) return Crashed(lenient, options);
  const bool absent = !std::filesystem::exists(options.root + "/proc/driver/nvidia-fs");
  return Viability::No(absent ? reasons::kNoNvidiaFs : reasons::kDriverFailed,
                       LibraryOf(strict) + " does not open its driver: " + strict.Get("driver") +
                           (absent ? "; " + Explain(options) : ""),
                       absent
                           ? "load nvidia-fs (modprobe nvidia-fs; package nvidia-fs or nvidia-gds)"
                           : "check the kernel log, and run gdscheck -p");
}

// A library whose batches crash or hang is used without: all else had been said before.
void NoteBatches(Said& said, const ProbeOptions& options) {
  const bool lived = said.outcome.ended && said.outcome.signal == 0;
  if (said.Get("step") != kBatchStep || lived || said.has("reason")) return;
  said.values["batch"] =
      said.outcome.Describe(options.limit) + ", in a process of its own: batches are not used";
  said.outcome.ended = true;
  said.outcome.signal = 0;
}

Viability Judge(const Said& said, const ProbeOptions& options) {
  if (said.has("reason")) {
    return Viability::No(said.Get("reason"), said.Get("detail"), said.Get("remedy"));
  }
  if (!said.outcome.ended || said.outcome.signal != 0) return Crashed(said, options);
  if (said.Get("driver") != "OK") {
    return said.has("driver") ? Closed(said, options) : Crashed(said, options);
  }
  // A library without that parameter, as its own configuration says.
  const bool compatible = said.Get("compatibility") == "allowed";
  if (said.has("posix") || (compatible && said.Get("nvidia_fs") == "0.0")) {
    return CompatibilityOnly(said, options);
  }
  if (said.Get("counts") == "nobody") {
    return Viability::No(reasons::kNoGds,
                         LibraryOf(said) +
                             " does not count its direct operations, and neither does nvidia-fs, "
                             "so nothing could prove that bytes go directly",
                         "use libcufile 1.15 or later, or: echo 1 > "
                         "/sys/module/nvidia_fs/parameters/rw_stats_enabled");
  }
  if (said.Get("read") == kOtherBytes) {
    return Viability::No(reasons::kDriverFailed,
                         LibraryOf(said) + " read wrong bytes from the file",
                         "update libcufile and nvidia-fs");
  }
  return {};
}

}  // namespace

Probed Probe(const ProbeOptions& options) {
  Probed probed;
  if (options.library.empty() && !std::filesystem::exists(options.root + "/dev/nvidiactl")) {
    probed.viability = Viability::No(reasons::kNoDriver,
                                     "there is no NVIDIA driver (/dev/nvidiactl), so libcufile was "
                                     "not looked for",
                                     "install NVIDIA's driver, nvidia-fs and libcufile");
    return probed;
  }
  Said said = Ask(options, options.batch ? kStrictWithBatches : kStrict);
  NoteBatches(said, options);
  probed.viability = Judge(said, options);
  for (const auto& key : {"library", "version", "nvidia_fs", "compatibility", "counts", "file",
                          "memory", "read", "went", "batch", "batch_counts"}) {
    if (!said.Get(key).empty()) probed.attributes[key] = said.Get(key);
  }
  return probed;
}

}  // namespace onecopy::cufile
