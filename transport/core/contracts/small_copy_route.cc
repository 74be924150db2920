#include "transport/core/contracts/small_copy_route.h"

#include "onecopy/reasons.h"

namespace onecopy {

Status SmallCopyRoute::BeginMany(std::span<const CopyPiece>, uint64_t) {
  return {Code::kInternal, reasons::kNotApplicable, "this route does not copy lists of pieces",
          "please report this bug: the list should have been refused earlier"};
}

Status SmallCopyRoute::BeginSummed(uint64_t, uint64_t, uint64_t, uint64_t*) {
  return {Code::kInternal, reasons::kNotApplicable, "this route does not compute checksums",
          "please report this bug: the request should have been refused earlier"};
}

Result<SmallSum> SmallCopyRoute::SumOf(uint64_t) {
  return Status(Code::kInternal, reasons::kNotApplicable, "this route has no checksums");
}

}  // namespace onecopy
