#include "daemon/pipeline/small_sums.h"

#include "onecopy/reasons.h"
#include "transport/digest/hasher.h"

namespace onecopy::pipeline {

Status CompareSums(const SmallSum& source, const SmallSum& destination) {
  if (source == destination) return OkStatus();
  return {Code::kDataLoss, reasons::kChecksumMismatch,
          "the source's checksum is " + digest::HexOf(source) + ", the destination's " +
              digest::HexOf(destination),
          "check whether either end was changed meanwhile; if not, suspect memory or network"};
}

Status NoSums() {
  return {Code::kInternal, reasons::kInternal, "a small copy ended without its checksums",
          "please report this bug"};
}

}  // namespace onecopy::pipeline
