// The suite on files by threads that wait.
#include "tests/conformance/store/subject.h"
#include "transport/store/posix/posix_store.h"

namespace onecopy::testing {

std::unique_ptr<Store> MakeStore(std::string& why) {
  auto store = std::make_unique<posix::PosixStore>(
      posix::PosixStore::Options{.io = posix::PosixStore::Io::kThreads});
  const Viability viability = store->Describe().viability;
  if (viability.viable) return store;
  why = viability.detail;
  return nullptr;
}

bool RegistersMemory() { return false; }

}  // namespace onecopy::testing
