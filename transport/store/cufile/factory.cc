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
       .doc = "GPUDirect Storage: drives read files directly into GPU memory. auto: used if a test "
              "of libcufile shows that it works; on: likewise, and otherwise the daemon does not "
              "start; off: never used.",
       .choices = {"auto", "on", "off"}},
      {.key = "threads",
       .type = SettingType::kInteger,
       .fallback = int64_t{16},
       .doc = "Reads or writes in flight for each user.",
       .least = 1,
       .most = 256},
      {.key = "slice",
       .type = SettingType::kBytes,
       .fallback = 4 * kMiB,
       .doc = "Size of one read or write: a multiple of 4 KiB.",
       .least = static_cast<int64_t>(CufileFile::kGrain),
       .most = 1024 * kMiB},
      {.key = "batch",
       .type = SettingType::kInteger,
       .fallback = int64_t{128},
       .doc = "For a request with many ranges: how many ranges, each of at most 1 MiB, one call "
              "reads or writes. Used if libcufile has such a call and counts its operations. 0: "
              "one call per range.",
       .least = 0,
       .most = 4096},
      {.key = "probe_limit",
       .type = SettingType::kDuration,
       .fallback = int64_t{10000},
       .doc = "How long the test of libcufile at the daemon's start may take; it runs in a process "
              "of its own.",
       .least = 100,
       .most = 600000},
      {.key = "probe_folder",
       .fallback = std::string("/var/tmp"),
       .doc = "Folder in which that test reads a file of its own; choose one on a drive that "
              "should be read directly."},
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
