// The suite on files by io_uring.
#include "tests/conformance/store/subject.h"
#include "transport/store/posix/posix_store.h"

namespace onecopy::testing {

std::unique_ptr<Store> MakeStore(std::string& why) {
  auto store = std::make_unique<posix::PosixStore>(
      posix::PosixStore::Options{.io = posix::PosixStore::Io::kRing});
  const Viability viability = store->Describe().viability;
  if (viability.viable) return store;
  why = viability.detail;
  return nullptr;
}

bool RegistersMemory() { return true; }

}  // namespace onecopy::testing
