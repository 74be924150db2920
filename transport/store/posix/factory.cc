#include "transport/store/posix/factory.h"

#include "transport/store/posix/posix_store.h"

namespace onecopy::posix {

Backend<Store> Describe() {
  Backend<Store> backend;
  backend.name = "posix";
  backend.settings = {
      {.key = "io",
       .fallback = std::string("auto"),
       .doc = "How files are read and written: io_uring, or threads that wait. auto: io_uring "
              "where the kernel lets this process.",
       .choices = {"auto", "io_uring", "threads"}},
  };
  backend.create = [](const BackendContext& context) -> Result<std::unique_ptr<Store>> {
    const std::string& io = context.settings.Text("io");
    return std::unique_ptr<Store>(
        std::make_unique<PosixStore>(io == "threads"    ? PosixStore::Io::kThreads
                                     : io == "io_uring" ? PosixStore::Io::kRing
                                                        : PosixStore::Io::kAuto));
  };
  return backend;
}

}  // namespace onecopy::posix
