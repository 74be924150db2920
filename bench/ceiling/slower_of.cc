#include "bench/ceiling/slower_of.h"

#include <algorithm>

namespace onecopy::bench {

Status SlowerOf::Fill(uint64_t seed) {
  for (const Part& part : parts_) ONECOPY_RETURN_IF_ERROR(part.mover->Fill(seed));
  return OkStatus();
}

Result<Moved> SlowerOf::Move() {
  Moved all;
  for (const Part& part : parts_) {
    ONECOPY_ASSIGN_OR_RETURN(const Moved moved, part.mover->Move());
    all.seconds = std::max(all.seconds, moved.seconds);
    all.lanes = std::max(all.lanes, moved.lanes);
    if (moved.cpu_seconds) all.cpu_seconds = all.cpu_seconds.value_or(0) + *moved.cpu_seconds;
    all.details[part.name + "_seconds"] = moved.seconds;
  }
  return all;
}

Result<bool> SlowerOf::Verify(uint64_t seed) {
  bool right = true;
  for (const Part& part : parts_) {
    ONECOPY_ASSIGN_OR_RETURN(const bool arrived, part.mover->Verify(seed));
    right = right && arrived;
  }
  return right;
}

}  // namespace onecopy::bench
