#include <utility>

#include "daemon/plan/candidates.h"
#include "daemon/plan/path_steps.h"
#include "onecopy/reasons.h"

namespace onecopy::plan {

// The store of GPUDirect Storage, by its name in capabilities.
constexpr const char* kDirectStore = "cufile";

Viability AnyStore(const NodeCapability& node) {
  Viability why = Viability::No(reasons::kNotServed,
                                "the onecopyd of " + node.node + " was built without any store");
  for (const StoreCapability& store : node.stores) {
    if (store.name == kDirectStore) continue;
    if (store.viability.viable) return {};
    why = store.viability;
  }
  return why;
}

Viability DirectStore(const NodeCapability& node, const FileEnd& file) {
  for (const StoreCapability& store : node.stores) {
    if (store.name != kDirectStore) continue;
    return store.viability.viable ? file.direct.viability : store.viability;
  }
  return Viability::No(reasons::kNoGds,
                       "the onecopyd of " + node.node + " was built without GPUDirect Storage",
                       "use storage-bounce");
}

Assessment AssessStorage(const Rung& rung, const Ends& ends, const FileEnd& file) {
  const MemoryCapability& memory = file.use == FileUse::kRead ? ends.destination : ends.source;
  const std::string described = Describe(memory, ends.source_node);
  if (rung.shape == Shape::kDirect) {
    if (!IsGpu(memory)) {
      return Refused(
          rung, reasons::kNotApplicable,
          described + " is not GPU memory: storage-bounce moves it without an extra copy");
    }
    if (Viability direct = DirectStore(ends.source_node, file); !direct.viable) {
      return Refused(rung, std::move(direct));
    }
    Candidate candidate{.path = PathOfDirectFile(rung, ends, file)};
    if (IsFar(ends.source_node, file.drive, memory)) {
      candidate.wire_bytes_per_second = kAcrossNodesBytesPerSecond;
    }
    return {.candidates = {std::move(candidate)}, .refusal = {}};
  }
  if (Viability store = AnyStore(ends.source_node); !store.viable) {
    return Refused(rung, std::move(store));
  }
  return {.candidates = {{.path = PathOfFile(rung, ends, file)}}, .refusal = {}};
}

}  // namespace onecopy::plan
