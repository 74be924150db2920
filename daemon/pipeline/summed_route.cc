#include "daemon/pipeline/summed_route.h"

#include "onecopy/reasons.h"

namespace onecopy::pipeline {

Status SummedRoute::BeginSummed(uint64_t from_offset, uint64_t to_offset, uint64_t bytes,
                                uint64_t* copy) {
  ONECOPY_RETURN_IF_ERROR(route_->Begin(from_offset, to_offset, bytes));
  *copy = begun_++;
  places_.Begin(*copy) = {from_offset, to_offset, bytes};
  return OkStatus();
}

Result<SmallSum> SummedRoute::SumOf(uint64_t copy) {
  const std::optional<Place> place = places_.Take(copy);
  if (!place) return NoSums();
  ONECOPY_ASSIGN_OR_RETURN(const SmallSum source, from_.Sum(place->from, place->bytes));
  ONECOPY_ASSIGN_OR_RETURN(const SmallSum destination, to_.Sum(place->to, place->bytes));
  ONECOPY_RETURN_IF_ERROR(CompareSums(source, destination));
  return destination;
}

}  // namespace onecopy::pipeline
