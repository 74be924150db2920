#include <algorithm>

#include "daemon/plan/candidates.h"
#include "daemon/plan/path_steps.h"
#include "onecopy/reasons.h"

namespace onecopy::plan {

Viability AnyStore(const NodeCapability& node) {
  Viability why = Viability::No(reasons::kNotServed,
                                "the onecopyd of " + node.node + " was built without any store");
  for (const StoreCapability& store : node.stores) {
    if (store.viability.viable) return {};
    why = store.viability;
  }
  return why;
}

Assessment AssessStorage(const Rung& rung, const Ends& ends, const FileEnd& file) {
  const MemoryCapability& memory = file.use == FileUse::kRead ? ends.destination : ends.source;
  const std::string described = Describe(memory, ends.source_node);
  if (rung.shape == Shape::kDirect) {
    if (!IsGpu(memory)) {
      return Refused(rung, reasons::kNotApplicable,
                     described + " is not a GPU's: storage-bounce needs no buffer for it");
    }
    return Refused(rung, reasons::kNoGds,
                   "this onecopyd does not use GPUDirect Storage: files reach " + described +
                       " through pinned host memory",
                   "take storage-bounce");
  }
  if (Viability store = AnyStore(ends.source_node); !store.viable) {
    return Refused(rung, std::move(store));
  }
  return {.candidates = {{.path = PathOfFile(rung, ends, file)}}, .refusal = {}};
}

}  // namespace onecopy::plan
