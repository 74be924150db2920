#include "transport/store/posix/factory.h"

#include <algorithm>

#include "transport/os/machine.h"
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
       .doc = "How files are read and written: io_uring, or threads that wait. auto: io_uring "
              "where the kernel lets this process; what is in the page cache by threads from 8 "
              "cores on, unless the other was measured to be clearly faster.",
       .choices = {"auto", "io_uring", "threads"}},
      {.key = "depth",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "Pieces of one file that are read or written at a time; 0: one and a half for each "
              "core, at least 8, at most 24; 16 for reads past the page cache.",
       .most = Lane::kDepth},
      {.key = "piece_bytes",
       .type = SettingType::kBytes,
       .fallback = int64_t{0},
       .doc = "Length of such a piece, at least 4 KiB; 0: 1 MiB, and 512 KiB for reads past the "
              "page cache. What goes through slots has pieces of whole slots, of which reads past "
              "the page cache take at most this.",
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
    const uint64_t piece_bytes = context.settings.Bytes("piece_bytes");
    if (piece_bytes > 0) {
      // Whole grains, lest every piece but the first go through the page cache.
      options.cut.piece_bytes = std::max(piece_bytes / kGrain, uint64_t{1}) * kGrain;
      options.cut.direct_read_piece_bytes = options.cut.piece_bytes;
    }
    return std::unique_ptr<Store>(std::make_unique<PosixStore>(options));
  };
  return backend;
}

}  // namespace onecopy::posix
