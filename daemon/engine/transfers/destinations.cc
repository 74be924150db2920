#include "daemon/engine/transfers/destinations.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/footprint.h"
#include "daemon/engine/base/names.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/places.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/core/scatter.h"
#include "transport/core/store.h"

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

Area AreaOf(const Buffer& buffer, MemoryPlace place) {
  return {{buffer.region, place.range.offset, place.range.bytes}, std::move(place.layout)};
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

void Destinations::Start(const std::string& caller, const StartRequest& request,
                         Reply<TransferInfo> reply) {
  const std::string& source_node = request.reservation.source.node;
  if (needs_.runs.context.IsSelf(source_node)) return reply(Accept(caller, request));
  needs_.runs.peers.WhenConnected(source_node, [this, caller, request, source_node,
                                                reply = std::move(reply)](auto peer) mutable {
    if (!peer.ok()) return reply(peer.status());
    const Result<std::vector<plan::Wire>> unknowns = Unknowns(caller, request);
    if (!unknowns.ok()) return reply(unknowns.status());
    needs_.probes.Await(source_node, *unknowns,
                        [this, caller, request, reply = std::move(reply)]() mutable {
                          reply(Accept(caller, request));
                        });
  });
}

Result<std::vector<plan::Wire>> Destinations::Unknowns(const std::string& caller,
                                                       const StartRequest& request, bool begun) {
  ONECOPY_ASSIGN_OR_RETURN(const Checked checked, Check(caller, request, begun));
  ONECOPY_ASSIGN_OR_RETURN(
      const plan::Request question,
      MakeRequest(request.reservation, checked.area, checked.ranges, request.asked.policy, {}));
  // A plan that cannot be made now is refused in full by Accept. Who only asks for a plan asks how
  // fast it will be, too.
  return request.asked.validate_only ? plan::AcceptableWires(question)
                                     : plan::ContendingWires(question);
}

Result<Destinations::Checked> Destinations::Check(const std::string& caller,
                                                  const StartRequest& request, bool part) {
  Context& context = needs_.runs.context;
  // What has begun may end.
  const bool begun = request.series && needs_.runs.transfers.Find(request.series->id) != nullptr;
  const bool may_begin = begun || part || request.asked.validate_only;
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
      needs_.grants.FindKnown(needs_.runs.buffers, who, request.asked.destination.buffer, file));
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

Result<Ticket> Destinations::OwnTicket(const std::string& caller,
                                       const StartRequest& request) const {
  const std::string& self = needs_.runs.context.node();
  const Reservation& said = request.reservation;
  if (request.asked.validate_only) {
    ReserveRequest evaluated;
    evaluated.id = request.id;
    evaluated.uid = request.uid;
    evaluated.administrator = request.administrator;
    evaluated.destination_node = self;
    evaluated.source = said.source;
    ONECOPY_ASSIGN_OR_RETURN(Ticket ticket, needs_.tickets.Evaluate(caller, evaluated));
    if (request.ranges != nullptr) {
      const LayoutRef ranges = {request.ranges, &request.ranges->source};
      ONECOPY_RETURN_IF_ERROR(needs_.tickets.Narrow(ranges, &ticket));
    }
    return ticket;
  }
  ONECOPY_ASSIGN_OR_RETURN(Ticket ticket, needs_.tickets.Look(self, said.ticket, request.id));
  if (ticket.owner == Owner{request.uid, caller}) return ticket;
  return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                "the ticket was not issued to " + Owner{request.uid, caller}.ToString());
}

Result<TransferInfo> Destinations::Accept(const std::string& caller, const StartRequest& request,
                                          const TransferId& whole, OverlapBudget* budget) {
  if (!needs_.runs.context.IsSelf(request.reservation.source.node)) {
    return AcceptFrom(caller, request, whole, nullptr, budget);
  }
  ONECOPY_ASSIGN_OR_RETURN(const Ticket ticket, OwnTicket(caller, request));
  StartRequest truth = request;
  truth.reservation = needs_.tickets.Describe(ticket);
  ONECOPY_ASSIGN_OR_RETURN(TransferInfo accepted,
                           AcceptFrom(caller, truth, whole, &ticket, budget));
  // Used up only by what begins.
  if (!request.asked.validate_only) {
    (void)needs_.tickets.Take(needs_.runs.context.node(), request.reservation.ticket, request.id);
  }
  return accepted;
}

Result<TransferInfo> Destinations::AcceptFrom(const std::string& caller,
                                              const StartRequest& request, const TransferId& whole,
                                              const Ticket* inside, OverlapBudget* budget) {
  Context& context = needs_.runs.context;
  ONECOPY_ASSIGN_OR_RETURN(const Checked checked, Check(caller, request, !whole.empty()));
  const auto& [buffer, range, area, ranges, grant] = checked;
  const Reservation& source = request.reservation;
  ONECOPY_ASSIGN_OR_RETURN(plan::Request question,
                           MakeRequest(source, area, ranges, request.asked.policy, {}));
  // Only of what runs alone something is learnt; who has set a deadline has no time to spare.
  question.may_try_again = !request.asked.validate_only && !request.asked.deadline &&
                           ranges == nullptr && needs_.runs.transfers.running() == 0 &&
                           question.bytes >= plan::kMinMeasuredBytes;
  ONECOPY_ASSIGN_OR_RETURN(plan::Path plan, plan::MakePlan(question));
  TransferInfo info;
  info.id = request.id;
  info.role = TransferRole::kDestination;
  info.source = source.source;
  info.destination = {context.node(), buffer->name, range.offset, range.bytes};
  if (buffer->file) info.destination.file = std::exchange(info.destination.buffer, {});
  if (!info.source.file.empty()) info.source.buffer.clear();
  info.bytes = area.payload();
  info.owner = Owner{request.uid, caller}.ToString();
  info.create_time = std::chrono::system_clock::now();
  info.plan = plan;

  DestinationRun::Params params;
  params.request = request;
  params.request.ranges = ranges;
  params.plan = std::move(plan);
  params.buffer = buffer->id;
  params.destination = area;
  if (buffer->registered) params.client_buffer = buffer->name;
  std::vector<GrantId> grants;
  if (grant) grants.push_back(*grant);
  if (inside != nullptr) {
    const Buffer* const from = needs_.runs.buffers.FindById(inside->buffer);
    if (inside->payload() != area.payload()) {
      return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                    "the ticket allows reading " + std::to_string(inside->payload()) +
                        " bytes, and the destination takes " + std::to_string(area.payload()));
    }
    const Area read = AreaOf(*from, inside->place);
    if (read.span.region == area.span.region) {
      const PlacedLayout a{read.layout.get(), read.span.offset, read.span.bytes};
      const PlacedLayout b{area.layout.get(), area.span.offset, area.span.bytes};
      ONECOPY_RETURN_IF_ERROR(
          CheckApart({&a, 1}, {&b, 1},
                     "source and destination overlap in buffer \"" + buffer->name + "\"", budget));
    }
    params.source_buffer = from->id;
    params.source_area = read;
    if (inside->grant) grants.push_back(*inside->grant);
  }
  if (request.asked.validate_only) {
    info.id = {};
    return info;
  }
  if (request.series) {
    ONECOPY_RETURN_IF_ERROR(needs_.series.Join(caller, *request.series, Owner{request.uid, caller},
                                               TransferRole::kDestination));
    info.part_of = request.series->id;
  }
  params.tell = whole.empty();
  const size_t message_bytes = request.asked.message.size();
  if (params.tell && (message_bytes > 0 || buffer->keep_arrivals)) {
    ONECOPY_ASSIGN_OR_RETURN(params.room, needs_.runs.arrivals.Reserve(*buffer, message_bytes));
  }
  Ledger::Charge charge;
  if (whole.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(charge, needs_.runs.transfers.Take(
                                         Owner{request.uid, caller}, caller, request.administrator,
                                         FootprintOf(ranges) + FootprintOf(source.place) +
                                             FootprintOf(request.asked.message)));
  } else {
    info.part_of = whole;
  }
  ONECOPY_ASSIGN_OR_RETURN(TransferRecord* const record,
                           needs_.runs.transfers.Add(std::move(info), Owner{request.uid, caller},
                                                     caller, std::move(charge)));
  record->asked = request.since.value_or(record->created);
  record->grants = std::move(grants);
  needs_.runs.buffers.Hold(params.buffer, request.id);
  if (inside != nullptr) needs_.runs.buffers.Hold(*params.source_buffer, request.id);
  log::Debug("transfer accepted", {{"transfer", request.id.str()},
                                   {"from", record->info.source.ToString()},
                                   {"to", record->info.destination.ToString()},
                                   {"path", params.plan.path}});
  params.kept = whole.empty() && ranges == nullptr && inside == nullptr &&
                Record(caller, request, *buffer, record->info);
  auto run = std::make_shared<DestinationRun>(needs_.runs, std::move(params));
  needs_.runs.transfers.BeginRun(*record, run);
  const TransferInfo accepted = record->info;
  run->Start(ReporterOf(request.id, whole.empty() ? caller : std::string(), source.source.node),
             ReplanOf());
  return accepted;
}

std::shared_ptr<Reporter> Destinations::ReporterOf(const TransferId& id, const std::string& caller,
                                                   const std::string& source_node) const {
  auto reporter =
      std::make_shared<Reporter>(needs_.runs.context, needs_.runs.peers, needs_.runs.transfers, id);
  if (!caller.empty()) reporter->AddObserver(caller);
  reporter->AddObserver(source_node);
  return reporter;
}

DestinationRun::Replan Destinations::ReplanOf() {
  return [this](const Reservation& from, const Area& to, const ScatterRef& ranges,
                const Policy& policy, std::vector<plan::Exclusion> excluded) {
    return MakePlan(from, to, ranges, policy, std::move(excluded));
  };
}

bool Destinations::Record(const std::string& caller, const StartRequest& request,
                          const Buffer& buffer, const TransferInfo& info) const {
  const bool simple = !request.series && !request.asked.deadline && request.asked.message.empty() &&
                      request.reservation.source.file.empty() && !buffer.keep_arrivals;
  const bool told = needs_.runs.kept.Tells(Owner{request.uid, caller});
  // What is read in place has no connection over which it could go on.
  const bool by_link = !info.plan->link.empty();
  if (buffer.held == nullptr || HasGaps(buffer) || !simple || !told || !by_link) return false;
  needs_.runs.kept.EraseArriving(request.id);
  ArrivingRecord record{request, caller, info.plan->path, info.create_time};
  record.request.asked.destination = info.destination;
  record.request.asked.destination.buffer = buffer.id.ToString();
  return needs_.runs.kept.Put(record);
}

void Destinations::Resume(const ArrivingRecord& begun, uint64_t arrived) {
  const StartRequest& request = begun.request;
  Transfers& transfers = needs_.runs.transfers;
  const Endpoint& end = request.asked.destination;
  Buffer* const buffer = needs_.runs.buffers.FindById(BufferId::Parse(end.buffer));
  const ByteRange range{*end.offset_bytes, *end.bytes};
  const Owner owner{request.uid, begun.caller};
  Result<Ledger::Charge> charge = transfers.Take(owner, begun.caller, true, 0);
  const bool told = needs_.runs.kept.Tells(owner);
  if (buffer == nullptr || !told || !Contains({0, buffer->bytes}, range) || !charge.ok()) {
    return needs_.runs.kept.EraseArriving(request.id);
  }
  Result<MemoryPlace> place = PlaceOf(*buffer, range, nullptr);
  if (!place.ok()) return needs_.runs.kept.EraseArriving(request.id);
  DestinationRun::Params params;
  params.request = request;
  params.buffer = buffer->id;
  params.destination = AreaOf(*buffer, std::move(*place));
  params.kept = true;
  TransferInfo info;
  info.id = request.id;
  info.role = TransferRole::kDestination;
  info.state = TransferState::kRunning;
  info.source = request.reservation.source;
  info.destination = {needs_.runs.context.node(), buffer->name, range.offset, range.bytes};
  info.bytes = range.bytes;
  info.owner = owner.ToString();
  info.create_time = begun.create_time;
  Result<TransferRecord*> record =
      transfers.Add(std::move(info), owner, begun.caller, std::move(*charge));
  if (!record.ok()) return;  // another one has the id
  // Its caller has waited since then.
  const auto waited = std::max<WallTime::duration>(
      std::chrono::system_clock::now() - begun.create_time, WallTime::duration(0));
  (*record)->created -= std::chrono::duration_cast<os::Clock::duration>(waited);
  (*record)->asked = (*record)->created;
  needs_.runs.buffers.Hold(params.buffer, request.id);
  log::Info("a transfer from before the restart goes on",
            {{"transfer", request.id.str()},
             {"source", (*record)->info.source.ToString()},
             {"from", std::to_string(arrived)}});
  auto run = std::make_shared<DestinationRun>(needs_.runs, std::move(params));
  transfers.BeginRun(**record, run);
  run->Resume(
      ReporterOf(request.id, begun.caller, request.reservation.source.node), ReplanOf(),
      [this, caller = begun.caller, request](Reply<plan::Path> reply) {
        Learn(caller, request, std::move(reply));
      },
      arrived, begun.path);
}

void Destinations::Learn(const std::string& caller, const StartRequest& request,
                         Reply<plan::Path> reply) {
  const std::string source_node = request.reservation.source.node;
  const auto answer = std::make_shared<Reply<plan::Path>>(std::move(reply));
  auto learn = [this, caller, request, source_node, answer] {
    const Result<std::vector<plan::Wire>> unknowns = Unknowns(caller, request, true);
    if (!unknowns.ok()) return (*answer)(unknowns.status());
    needs_.probes.Await(source_node, *unknowns, [this, caller, request, answer] {
      const Result<Checked> checked = Check(caller, request, true);
      if (!checked.ok()) return (*answer)(checked.status());
      TransferRecord* const record = needs_.runs.transfers.Find(request.id);
      if (record != nullptr && checked->grant) record->grants = {*checked->grant};
      (*answer)(MakePlan(request.reservation, checked->area, nullptr, request.asked.policy, {}));
    });
  };
  // A third node's users are known by what that node says of itself.
  const bool third = caller != source_node && !needs_.runs.context.IsSelf(caller);
  if (!third) return learn();
  needs_.runs.peers.WhenConnected(
      caller, [caller, learn = std::move(learn), answer](const Result<PeerApi*>& peer) mutable {
        if (peer.ok()) return learn();
        (*answer)(Status(Code::kUnavailable, reasons::kPeerDown,
                         "node " + caller + ", which asked for the transfer, does not answer yet"));
      });
}

std::optional<plan::FileEnd> Destinations::FileEndOf(const Reservation& source,
                                                     const Area& destination,
                                                     const ScatterRef& ranges) const {
  const auto& [to, layout] = destination;
  const bool reads = source.memory == kFileKind;
  if (!reads && to.region->file() == nullptr) return std::nullopt;
  const ByteRange written{to.offset, to.bytes};
  if (!needs_.runs.context.IsSelf(source.source.node)) {
    // By way of slots. What its node does not say of its file counts as the longest way.
    if (reads)
      return plan::FileEnd{FileUse::kRead, source.file_pass.value_or(FilePass::kPageCache)};
    return plan::FileEnd{FileUse::kWrite, LongestPass(*to.region->file(), written, layout)};
  }
  const Result<Buffer*> from = needs_.runs.buffers.Find(source.source.buffer, true);
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

Result<plan::Path> Destinations::MakePlan(const Reservation& source, const Area& destination,
                                          const ScatterRef& ranges, const Policy& policy,
                                          std::vector<plan::Exclusion> excluded) const {
  ONECOPY_ASSIGN_OR_RETURN(const plan::Request question,
                           MakeRequest(source, destination, ranges, policy, std::move(excluded)));
  return plan::MakePlan(question);
}

Result<plan::Request> Destinations::MakeRequest(const Reservation& source, const Area& destination,
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

}  // namespace onecopy::engine
