#include "daemon/plan/path_rate.h"

namespace onecopy::plan {

size_t SizeClassOf(uint64_t bytes) {
  size_t found = 0;
  for (size_t i = 0; i < kSizeClasses.size(); ++i) {
    if (bytes >= kSizeClasses[i]) found = i;
  }
  return found;
}

}  // namespace onecopy::plan
