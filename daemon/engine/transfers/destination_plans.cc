#include "daemon/engine/transfers/destination_plans.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/engine/registry/tickets.h"
#include "onecopy/reasons.h"
#include "transport/core/contracts/store.h"
#include "transport/core/ranges/scatter.h"

namespace onecopy::engine {
namespace {

Status CheckComplete(const Reservation& source, const TransferId& id) {
  const bool complete = source.source.offset_bytes && source.source.bytes && !source.memory.empty();
  if (complete && !id.empty() && id.str().size() <= kMaxIdBytes) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadArgument,
          "the transfer lacks an id or a complete source"};
}

Result<ByteRange> DestinationRange(const StartRequest& request, const Buffer& buffer) {
  const std::string what = "buffer \"" + buffer.name + "\"";
  if (request.ranges != nullptr) {
    return ResolveRanges(request.asked.destination, request.ranges->destination, buffer.bytes,
                         what);
  }
  Endpoint destination = request.asked.destination;
  if (!destination.bytes) destination.bytes = request.reservation.source.bytes;
  return ResolveRange(destination, buffer.bytes, what);
}

Result<Layout> OneRange(uint64_t bytes, const std::string& what) {
  const StridedRange all{0, bytes, 0, 1};
  return Layout::Make({&all, 1}, what);
}

// The request's ranges as they lie in both memories: an array with gaps has ranges of its own.
Result<ScatterRef> RangesMoved(const StartRequest& request, const Buffer& buffer, const Area& to) {
  const LayoutRef& from = request.reservation.place;
  if (from == nullptr && !HasGaps(buffer)) return request.ranges;
  const uint64_t bytes = to.payload();
  ONECOPY_ASSIGN_OR_RETURN(Layout source, from != nullptr ? Result<Layout>(*from)
                                          : request.ranges != nullptr
                                              ? Result<Layout>(request.ranges->source)
                                              : OneRange(bytes, "source"));
  ONECOPY_ASSIGN_OR_RETURN(Layout destination, to.layout != nullptr
                                                   ? Result<Layout>(*to.layout)
                                                   : OneRange(bytes, "destination"));
  const uint64_t ranges = request.ranges != nullptr ? request.ranges->ranges
                                                    : std::max(source.size(), destination.size());
  return Scatter::Join(std::move(source), std::move(destination), ranges);
}

uint64_t PiecesOf(const Layout& layout) {
  if (layout.equal_bytes() != 0) return layout.size();
  uint64_t pieces = 0;
  for (const StridedRange& piece : layout.unlike_pieces()) pieces += piece.count;
  return pieces;
}

// Of strided ranges, that are looked at one by one.
constexpr uint64_t kMostElements = uint64_t{1} << 16;

// What of a file goes directly to memory of a GPU, which lies at addresses.
plan::DirectEnd DirectEndOf(const DirectWay* way, const ScatterEnd& file, const ScatterEnd& memory,
                            uint64_t payload) {
  const auto no = [](std::string why, std::string remedy) {
    return plan::DirectEnd{
        Viability::No(reasons::kNotApplicable, std::move(why), std::move(remedy))};
  };
  if (way == nullptr) return no("the file was not opened for direct access", "");
  if (way->file == nullptr) {
    const Status& why = way->why_not;
    return {Viability::No(why.reason(), why.message(), why.remedy())};
  }
  const uint64_t grain = way->file->grain();
  const std::string blocks = "blocks of " + std::to_string(grain) + " bytes";
  for (const Layout* layout : {file.layout, memory.layout}) {
    const uint64_t element = layout == nullptr ? 0 : layout->least_element();
    if (element == 0 || (element >= grain && payload / element <= kMostElements)) continue;
    return no("some of its ranges are strided, with elements of " + std::to_string(element) +
                  " bytes, which are not whole blocks of a drive",
              "");
  }
  uint64_t whole = 0;
  bool edges = false;
  for (const StridedCopy& piece : CopiesOf(file, memory, 0, payload)) {
    const bool strides = piece.count > 1 && (piece.from_stride - piece.to_stride) % grain != 0;
    if (strides || (piece.from - piece.to) % grain != 0) {
      return no("what lies at byte " + std::to_string(piece.from) +
                    " of the file would not lie alike within a block of " + std::to_string(grain) +
                    " bytes in the GPU's memory",
                "move offsets by whole " + blocks);
    }
    for (uint64_t i = 0; i < piece.count; ++i) {
      const uint64_t from = piece.from + i * piece.from_stride;
      const uint64_t head = std::min(piece.bytes, (grain - from % grain) % grain);
      const uint64_t middle = (piece.bytes - head) / grain * grain;
      whole += middle;
      edges = edges || middle != piece.bytes;
    }
  }
  if (whole == 0) return no("it has no whole " + blocks, "");
  // Each block that is not whole costs a read of its own and a copy.
  if (file.layout != nullptr && whole < payload / 2) {
    return no("less than half of the ranges' bytes are whole " + blocks, "");
  }
  return {{}, edges};
}

}  // namespace

Area AreaOf(const Buffer& buffer, MemoryPlace place) {
  return {{buffer.region, place.range.offset, place.range.bytes}, std::move(place.layout)};
}

Result<std::vector<plan::Wire>> DestinationPlans::Unknowns(const std::string& caller,
                                                           const StartRequest& request,
                                                           bool accepted) const {
  ONECOPY_ASSIGN_OR_RETURN(const Checked checked, Check(caller, request, accepted));
  ONECOPY_ASSIGN_OR_RETURN(
      const plan::Request question,
      MakeRequest(request.reservation, checked.area, checked.ranges, request.asked.policy, {}));
  // A plan that cannot be made now is refused in full by Accept. Who only asks for a plan asks how
  // fast it will be, too.
  return request.asked.validate_only ? plan::AcceptableWires(question)
                                     : plan::ContendingWires(question);
}

Result<DestinationPlans::Checked> DestinationPlans::Check(const std::string& caller,
                                                          const StartRequest& request,
                                                          bool accepted) const {
  Context& context = needs_.context;
  // What has begun may end.
  const bool begun = request.series && needs_.transfers.Find(request.series->id) != nullptr;
  const bool may_begin = begun || accepted || request.asked.validate_only;
  if (context.stopping || (context.draining && !may_begin)) {
    return context.Draining();
  }
  const Reservation& source = request.reservation;
  ONECOPY_RETURN_IF_ERROR(CheckComplete(source, request.id));
  const ByteRange source_range{*source.source.offset_bytes, *source.source.bytes};

  const Principal who{request.uid, caller, request.administrator && context.IsSelf(caller), {}};
  // See PeerService::Start: what this node has opened for that very transfer.
  const bool file = !request.asked.destination.file.empty();
  ONECOPY_ASSIGN_OR_RETURN(
      Buffer* const buffer,
      needs_.grants.FindKnown(needs_.buffers, who, request.asked.destination.buffer, file));
  if (buffer->file && source.memory == kFileKind) {
    return Status(
        Code::kInvalidArgument, reasons::kBadEndpoint,
        "both ends are files, " + Printable(source.source.file) + " and " + Printable(buffer->name),
        "copy the first file into a buffer, then the buffer into the other file");
  }
  ONECOPY_ASSIGN_OR_RETURN(const ByteRange range, DestinationRange(request, *buffer));
  const ScatterRef& ranges = request.ranges;
  const uint64_t expected = ranges == nullptr ? range.bytes : ranges->source.extent().bytes;
  if (expected != source_range.bytes) {
    return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                  "the source's range has " + std::to_string(source_range.bytes) +
                      " bytes, the destination's " + std::to_string(expected),
                  "leave out one of the lengths, or make them equal");
  }
  ONECOPY_ASSIGN_OR_RETURN(std::optional<GrantId> grant,
                           needs_.grants.Check(who, *buffer, range, Access::kWrite));
  LayoutRef layout;
  if (ranges != nullptr && !ranges->destination.contiguous()) {
    layout = {ranges, &ranges->destination};
  }
  ONECOPY_ASSIGN_OR_RETURN(MemoryPlace place, PlaceOf(*buffer, range, std::move(layout)));
  Area area = AreaOf(*buffer, std::move(place));
  ONECOPY_ASSIGN_OR_RETURN(ScatterRef moved, RangesMoved(request, *buffer, area));
  return Checked{buffer, range, std::move(area), std::move(moved), std::move(grant)};
}

std::optional<plan::FileEnd> DestinationPlans::FileEndOf(const Reservation& source,
                                                         const Area& destination,
                                                         const ScatterRef& ranges) const {
  const auto& [to, layout] = destination;
  const bool reads = source.memory == kFileKind;
  if (!reads && to.region->file() == nullptr) return std::nullopt;
  const ByteRange written{to.offset, to.bytes};
  if (!needs_.context.IsSelf(source.source.node)) {
    // By way of slots. What its node does not say of its file counts as the longest way.
    if (reads)
      return plan::FileEnd{FileUse::kRead, source.file_pass.value_or(FilePass::kPageCache)};
    return plan::FileEnd{FileUse::kWrite, LongestPass(*to.region->file(), written, layout)};
  }
  const Result<Buffer*> from = needs_.buffers.Find(source.source.buffer, true);
  if (!from.ok()) return std::nullopt;
  // Of a file, or of memory here, where that lies.
  const ByteRange read{source.memory_offset, source.source.bytes.value_or(0)};
  const Region& memory = reads ? *to.region : *(*from)->region;
  // Null: of another process's memory, which its library moves.
  const std::byte* const first = memory.address();
  const std::byte* const begin =
      first == nullptr ? nullptr : first + (reads ? written : read).offset;
  const std::byte* const address = memory.place().kind == "host" ? begin : nullptr;
  const Region& end_of_file = reads ? *(*from)->region : *to.region;
  plan::FileEnd end{reads ? FileUse::kRead : FileUse::kWrite,
                    LongestPass(*end_of_file.file(), reads ? read : written, layout, address)};
  const Layout* const in_file = ranges == nullptr ? nullptr
                                : reads           ? &ranges->source
                                                  : &ranges->destination;
  const Layout* const in_memory = ranges == nullptr ? nullptr
                                  : reads           ? &ranges->destination
                                                    : &ranges->source;
  const ByteRange& bytes = reads ? read : written;
  end.direct = DirectEndOf(end_of_file.direct_way().get(), {in_file, bytes.offset},
                           {in_memory, reinterpret_cast<uintptr_t>(begin)},
                           in_file == nullptr ? bytes.bytes : in_file->bytes());
  end.drive = end_of_file.file()->drive();
  return end;
}

Result<plan::Path> DestinationPlans::MakePlan(const Reservation& source, const Area& destination,
                                              const ScatterRef& ranges, const Policy& policy,
                                              std::vector<plan::Exclusion> excluded) const {
  ONECOPY_ASSIGN_OR_RETURN(const plan::Request question,
                           MakeRequest(source, destination, ranges, policy, std::move(excluded)));
  return plan::MakePlan(question);
}

Result<plan::Request> DestinationPlans::MakeRequest(const Reservation& source,
                                                    const Area& destination,
                                                    const ScatterRef& ranges, const Policy& policy,
                                                    std::vector<plan::Exclusion> excluded) const {
  ONECOPY_ASSIGN_OR_RETURN(
      plan::Request request,
      needs_.planning.RequestFor(source.source.node, {source.memory, source.device},
                                 destination.span.region->place(), destination.payload()));
  if (ranges != nullptr) {
    request.source_pieces = PiecesOf(ranges->source);
    request.destination_pieces = PiecesOf(ranges->destination);
  }
  request.file = FileEndOf(source, destination, ranges);
  request.policy = policy;
  request.excluded = std::move(excluded);
  return request;
}

DestinationPlans::MakePlanAgain DestinationPlans::Replan() const {
  return [this](const Reservation& from, const Area& to, const ScatterRef& ranges,
                const Policy& policy, std::vector<plan::Exclusion> excluded) {
    return MakePlan(from, to, ranges, policy, std::move(excluded));
  };
}

}  // namespace onecopy::engine
