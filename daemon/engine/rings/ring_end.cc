#include "daemon/engine/rings/ring_end.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/registry/places.h"
#include "daemon/engine/registry/tickets.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

uint64_t LengthOf(const Endpoint& source, uint64_t buffer_bytes) {
  const uint64_t offset = source.offset_bytes.value_or(0);
  return source.bytes.value_or(buffer_bytes - std::min(offset, buffer_bytes));
}

Result<RingEnd> FindRingEnd(Buffers& buffers, Grants& grants, const Principal& who,
                            const Endpoint& end, Access access) {
  ONECOPY_ASSIGN_OR_RETURN(Buffer* const buffer, grants.FindKnown(buffers, who, end.buffer));
  if (access == Access::kWrite && buffer->keep_arrivals) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  "buffer \"" + buffer->name +
                      "\" keeps arrivals, and transfers by a ring do not report them");
  }
  if (HasGaps(*buffer)) {
    return Status(
        Code::kFailedPrecondition, reasons::kNotApplicable,
        "buffer \"" + buffer->name + "\" is an array with gaps, and rings carry one range");
  }
  const ByteRange whole{0, buffer->bytes};
  auto all = grants.Check(who, *buffer, whole, access);
  if (all.ok()) return RingEnd{buffer, whole, std::move(*all)};
  ONECOPY_ASSIGN_OR_RETURN(const ByteRange asked,
                           ResolveRange(end, buffer->bytes, "buffer \"" + buffer->name + "\""));
  ONECOPY_ASSIGN_OR_RETURN(std::optional<GrantId> grant, grants.Check(who, *buffer, asked, access));
  const Grants::Grant* rests_on = grant ? grants.Find(*grant) : nullptr;
  return RingEnd{buffer, rests_on == nullptr ? asked : rests_on->range, std::move(grant)};
}

}  // namespace onecopy::engine
