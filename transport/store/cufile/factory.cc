#include "transport/store/cufile/factory.h"

#include "transport/store/cufile/cufile_file.h"
#include "transport/store/cufile/cufile_store.h"
#include "transport/store/cufile/probe_child.h"

namespace onecopy::cufile {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

std::vector<SettingSpec> Specs() {
  return {
      {.key = "use",
       .fallback = std::string("auto"),
       .doc = "GPUDirect Storage: whether drives read files into memory of GPUs themselves. "
              "auto: where libcufile was seen to do so; on: likewise, and without that the daemon "
              "does not start; off: never.",
       .choices = {"auto", "on", "off"}},
      {.key = "threads",
       .type = SettingType::kInteger,
       .fallback = int64_t{16},
       .doc = "Reads or writes under way at a time, for each user.",
       .least = 1,
       .most = 256},
      {.key = "slice",
       .type = SettingType::kBytes,
       .fallback = 4 * kMiB,
       .doc = "Of one read or write: whole blocks of 4 KiB.",
       .least = static_cast<int64_t>(CufileFile::kGrain),
       .most = 1024 * kMiB},
      {.key = "batch",
       .type = SettingType::kInteger,
       .fallback = int64_t{128},
       .doc =
           "Of many ranges in one request: how many, of 1 MiB each at most, are read or written by "
           "one call, where libcufile has such a call and counts what it does. 0: by one call "
           "each.",
       .least = 0,
       .most = 4096},
      {.key = "probe_limit",
       .type = SettingType::kDuration,
       .fallback = int64_t{10000},
       .doc = "How long the process may take in which libcufile is tried when the daemon starts.",
       .least = 100,
       .most = 600000},
      {.key = "probe_folder",
       .fallback = std::string("/var/tmp"),
       .doc = "Where that process reads a file of its own; best on a drive that is to be read "
              "directly."},
  };
}

}  // namespace

Backend<Store> Describe() {
  Backend<Store> backend;
  backend.name = "cufile";
  backend.library = "cufile";
  backend.settings = Specs();
  backend.create = [](const BackendContext& context) -> Result<std::unique_ptr<Store>> {
    const Settings& settings = context.settings;
    const std::string& use = settings.Text("use");
    CufileStore::Options options;
    options.use = use == "on" ? Use::kOn : use == "off" ? Use::kOff : Use::kAuto;
    options.threads = static_cast<unsigned>(settings.Integer("threads"));
    // Whole blocks.
    options.slice_bytes = settings.Bytes("slice") / CufileFile::kGrain * CufileFile::kGrain;
    options.batch = static_cast<unsigned>(settings.Integer("batch"));
    options.probe.batch = options.batch >= 2;
    options.probe.library = context.library;
    const auto cuda = context.libraries.find("cuda");
    if (cuda != context.libraries.end()) options.probe.cuda_library = cuda->second;
    options.probe.limit = settings.Duration("probe_limit");
    options.probe.folder = settings.Text("probe_folder");
    auto store = std::make_unique<CufileStore>(std::move(options));
    if (use == "on") {
      const Viability works = store->AwaitProbe();
      if (!works.viable) {
        return Status(Code::kFailedPrecondition, works.reason,
                      "use = \"on\" under [cufile], but: " + works.detail,
                      works.remedy + (works.remedy.empty() ? "" : "; or ") + "set use = \"auto\"");
      }
    }
    return std::unique_ptr<Store>(std::move(store));
  };
  backend.probe = RunProbeChild;
  return backend;
}

}  // namespace onecopy::cufile
