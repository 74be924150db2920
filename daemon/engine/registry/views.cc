#include "daemon/engine/registry/views.h"

#include <utility>

#include "daemon/engine/registry/places.h"
#include "daemon/engine/registry/tickets.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// Where the view lies in `of`, whose own bytes are one range of its memory.
Result<ByteRange> RangeAsked(const ViewRequest& request, const Buffer& of) {
  const std::string what = "buffer \"" + of.name + "\"";
  if (!request.array) {
    ONECOPY_ASSIGN_OR_RETURN(const ByteRange range, ResolveRange(request.range, of.bytes, what));
    if (range.bytes > 0) return range;
    return Status(Code::kInvalidArgument, reasons::kBadSize, "a view needs at least one byte");
  }
  ONECOPY_RETURN_IF_ERROR(BytesOf(*request.array).status());
  const ByteRange range{request.range.offset_bytes.value_or(0), ExtentOf(*request.array)};
  ONECOPY_RETURN_IF_ERROR(CheckWithin(range, of.bytes, what));
  return range;
}

bool IsSame(const Buffer& there, const Buffer& draft) {
  return there.view_of == draft.view_of && there.offset == draft.offset &&
         there.bytes == draft.bytes && there.array == draft.array &&
         there.keep_arrivals == draft.keep_arrivals && there.removing.ok();
}

}  // namespace

Result<Buffer> Views::Draft(const Principal& who, const ViewRequest& request) const {
  if (!needs_.context.IsSelf(request.range.node)) {
    return Status(Code::kInvalidArgument, reasons::kBadEndpoint,
                  "only the buffer's own node can make a view: " + request.range.node,
                  "make it there");
  }
  ONECOPY_ASSIGN_OR_RETURN(const Buffer* const of,
                           needs_.grants.FindKnown(needs_.buffers, who, request.range.buffer));
  if (!needs_.owners.Owns(who, of->owner)) {
    return Status(Code::kPermissionDenied, reasons::kNotOwner,
                  "buffer \"" + of->name + "\" belongs to " + of->owner.ToString() + ", not to " +
                      who.ToString(),
                  "ask its owner for a view of the range and a grant on it");
  }
  if (HasGaps(*of)) {
    return Status(
        Code::kInvalidArgument, reasons::kBadEndpoint,
        "buffer \"" + of->name + "\" is an array with gaps, and a view needs memory without gaps",
        "make a view of buffer " + of->view_of->ToString() + ", which has the memory");
  }
  ONECOPY_ASSIGN_OR_RETURN(const ByteRange range, RangeAsked(request, *of));
  Buffer draft;
  draft.name = request.name;
  draft.owner = of->owner;
  draft.region = of->region;
  draft.held = of->held;
  draft.view_of = of->view_of.value_or(of->id);
  draft.offset = of->offset + range.offset;
  draft.bytes = range.bytes;
  draft.array = request.array;
  if (draft.array) {
    ONECOPY_ASSIGN_OR_RETURN(draft.bytes, BytesOf(*draft.array));
  }
  // Refused now rather than at its first use.
  ONECOPY_RETURN_IF_ERROR(PlaceOf(draft, {0, draft.bytes}, nullptr).status());
  draft.registered = of->registered;
  draft.form = of->form;
  draft.session = of->session;
  draft.keep_arrivals = request.keep_arrivals;
  return draft;
}

Result<std::vector<BufferInfo>> Views::Create(const Principal& who,
                                              const std::vector<ViewRequest>& requests) {
  std::vector<BufferId> made;
  std::vector<BufferInfo> all;
  Status failure;
  for (const ViewRequest& request : requests) {
    Result<Buffer> draft = Draft(who, request);
    if (!draft.ok()) {
      failure = draft.status();
      break;
    }
    const Result<Buffer*> there = needs_.buffers.Find(request.name);
    if (!request.name.empty() && there.ok() && IsSame(**there, *draft)) {
      all.push_back(needs_.buffers.Describe(**there));
      continue;
    }
    const Result<BufferId> added = needs_.buffers.AddView(who, std::move(*draft));
    if (!added.ok()) {
      failure = added.status();
      break;
    }
    made.push_back(*added);
    all.push_back(needs_.buffers.Describe(*needs_.buffers.FindById(*added)));
  }
  if (failure.ok()) return all;
  // Nobody has heard of them yet.
  for (const BufferId id : made) needs_.buffers.Remove(id, true, failure, [](const Status&) {});
  if (requests.size() == 1) return failure;
  return failure.WithContext("view " + std::to_string(all.size()) + " of " +
                             std::to_string(requests.size()));
}

}  // namespace onecopy::engine
