#include "transport/store/posix/factory.h"

#include "transport/os/machine/machine.h"
#include "transport/store/posix/cached_reads.h"
#include "transport/store/posix/open_descriptor.h"
#include "transport/store/posix/posix_store.h"

namespace onecopy::posix {

Backend<Store> Describe() {
  Backend<Store> backend;
  backend.name = "posix";
  backend.settings = {
      {.key = "io",
       .fallback = std::string("auto"),
       .doc = "How files are read and written: io_uring, or blocking threads. auto: io_uring if "
              "the kernel allows it; from 8 cores on, threads read what is in the page cache, "
              "unless io_uring measured clearly faster.",
       .choices = {"auto", "io_uring", "threads"}},
      {.key = "depth",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "Pieces of one file that are read or written at a time. 0: 1.5 per core, from 8 to "
              "24; 16 for reads past the page cache.",
       .most = Lane::kDepth},
      {.key = "piece_bytes",
       .type = SettingType::kBytes,
       .fallback = int64_t{1} << 20,
       .doc = "Size of such a piece. It does not apply to reads past the page cache; a piece "
              "through a slot has the slot's size.",
       .least = kGrain,
       .most = int64_t{64} << 20},
      {.key = "direct_read_piece_bytes",
       .type = SettingType::kBytes,
       .fallback = int64_t{512} << 10,
       .doc = "Size of a piece that is read past the page cache; through a slot, at most the "
              "slot's size.",
       .least = kGrain,
       .most = int64_t{64} << 20},
  };
  backend.create = [](const BackendContext& context) -> Result<std::unique_ptr<Store>> {
    const std::string& io = context.settings.Text("io");
    PosixStore::Options options;
    options.io = io == "threads"    ? PosixStore::Io::kThreads
                 : io == "io_uring" ? PosixStore::Io::kRing
                                    : PosixStore::Io::kAuto;
    options.topology = context.topology;
    options.cached_by_threads = os::UsableCores() >= CachedReads::kThreadsFromCores;
    const auto depth = static_cast<unsigned>(context.settings.Integer("depth"));
    options.cut.depth = depth > 0 ? depth : DepthFor(os::UsableCores());
    if (depth > 0) options.cut.direct_read_depth = depth;
    // Whole grains, lest every piece but the first go through the page cache.
    const auto whole_grains = [&](const char* key) {
      return context.settings.Bytes(key) / kGrain * kGrain;
    };
    options.cut.piece_bytes = whole_grains("piece_bytes");
    options.cut.direct_read_piece_bytes = whole_grains("direct_read_piece_bytes");
    return std::unique_ptr<Store>(std::make_unique<PosixStore>(options));
  };
  return backend;
}

}  // namespace onecopy::posix
