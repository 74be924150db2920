#include "daemon/engine/registry/tickets.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "daemon/engine/base/footprint.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

// Long enough for a destination that waits for its turn with the staging slots.
constexpr std::chrono::minutes kTicketLifetime{10};
constexpr char kPartMark = '.';  // before a part's number, in the text of its ticket

// The secret, and which of its tickets is meant.
std::pair<std::string, size_t> Split(const std::string& text) {
  const size_t mark = text.find(kPartMark);
  size_t part = 0;
  if (mark == std::string::npos) return {text, part};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + mark + 1, end, part);
  // A name that is not a number names no ticket.
  if (error != std::errc() || stop != end) part = std::numeric_limits<size_t>::max();
  return {text.substr(0, mark), part};
}

// From its first byte on: where that lies is not told. One range is a layout, too.
LayoutRef Lay(const MemoryPlace& place) {
  if (place.layout != nullptr) return std::make_shared<const Layout>(place.layout->FromFirstByte());
  const StridedRange all{0, place.range.bytes, 0, 1};
  return std::make_shared<const Layout>(*Layout::Make({&all, 1}, "source"));
}

}  // namespace

FilePass LongestPass(const StoreFile& file, const ByteRange& range, const LayoutRef& layout,
                     const std::byte* memory) {
  const FilePass pass = file.PassOf(range, memory);
  // Where pieces begin and end is not looked at: the worse counts.
  return layout != nullptr && pass == FilePass::kDirect ? FilePass::kPageCache : pass;
}

Result<ByteRange> ResolveRange(const Endpoint& endpoint, uint64_t buffer_bytes,
                               const std::string& what) {
  ByteRange range{endpoint.offset_bytes.value_or(0), 0};
  ONECOPY_RETURN_IF_ERROR(CheckWithin(range, buffer_bytes, what));
  range.bytes = endpoint.bytes.value_or(buffer_bytes - range.offset);
  ONECOPY_RETURN_IF_ERROR(CheckWithin(range, buffer_bytes, what));
  return range;
}

Result<ByteRange> ResolveRanges(const Endpoint& endpoint, const Layout& layout,
                                uint64_t buffer_bytes, const std::string& what) {
  ONECOPY_ASSIGN_OR_RETURN(const ByteRange window, ResolveRange(endpoint, buffer_bytes, what));
  ONECOPY_RETURN_IF_ERROR(
      CheckWithin(layout.extent(), window.bytes, endpoint.bytes ? "the range of " + what : what));
  return ByteRange{window.offset + layout.extent().offset, layout.extent().bytes};
}

Result<Ticket> Tickets::Evaluate(const std::string& caller, const ReserveRequest& request) const {
  const Principal who{request.uid, caller, request.administrator && context_.IsSelf(caller), {}};
  // A client's file is read by its own transfer, which this node has ordered, and by no other.
  const Result<Buffer*> meant = buffers_.Find(request.source.buffer, true);
  const bool exported = meant.ok() && (*meant)->exported;
  const bool file = (context_.IsSelf(caller) || exported) && !request.source.file.empty();
  ONECOPY_ASSIGN_OR_RETURN(const Buffer* buffer,
                           grants_.FindKnown(buffers_, who, request.source.buffer, file));
  const std::string what = "buffer \"" + buffer->name + "\"";
  const Layout* const layout = request.ranges.get();
  ONECOPY_ASSIGN_OR_RETURN(const ByteRange range,
                           layout == nullptr
                               ? ResolveRange(request.source, buffer->bytes, what)
                               : ResolveRanges(request.source, *layout, buffer->bytes, what));
  ONECOPY_ASSIGN_OR_RETURN(std::optional<GrantId> grant,
                           grants_.Check(who, *buffer, range, Access::kRead));
  const bool scattered = layout != nullptr && !layout->contiguous();
  ONECOPY_ASSIGN_OR_RETURN(MemoryPlace place,
                           PlaceOf(*buffer, range, scattered ? request.ranges : nullptr));
  Ticket ticket{request.id,
                buffer->id,
                buffer->memory(),
                range,
                std::move(place),
                HasGaps(*buffer),
                request.destination_node,
                caller,
                Owner{request.uid, caller},
                std::move(grant)};
  ticket.ranged = scattered;
  return ticket;
}

Status Tickets::Narrow(const LayoutRef& ranges, Ticket* ticket) const {
  if (ranges->contiguous() || ranges->extent().bytes != ticket->range.bytes) return OkStatus();
  ONECOPY_ASSIGN_OR_RETURN(ticket->place,
                           PlaceOf(*buffers_.FindById(ticket->buffer), ticket->range, ranges));
  return OkStatus();
}

Reservation Tickets::Describe(const Ticket& ticket) const {
  const Buffer& buffer = *buffers_.FindById(ticket.buffer);
  Reservation reservation;
  reservation.source = {context_.node(), buffer.name, ticket.range.offset, ticket.range.bytes};
  if (buffer.file) {
    reservation.source.buffer = buffer.id.ToString();
    reservation.source.file = buffer.name;
    reservation.file_pass = LongestPass(*buffer.region->file(), ticket.range, ticket.place.layout);
  }
  reservation.memory = buffer.region->place().kind;
  reservation.device = buffer.region->place().device;
  reservation.memory_id = ticket.memory.ToString();
  reservation.memory_offset = ticket.place.range.offset;
  if (ticket.gaps) reservation.place = Lay(ticket.place);
  return reservation;
}

Result<Reservation> Tickets::Reserve(const std::string& caller, const ReserveRequest& request) {
  const bool may_begin = request.validate_only || (request.begun && !context_.stopping);
  if (context_.draining && !may_begin) return context_.Draining();
  std::vector<Ticket> tickets;
  if (request.parts.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(Ticket ticket, Evaluate(caller, request));
    tickets.push_back(std::move(ticket));
  }
  ReserveRequest one = request;
  for (size_t i = 0; i < request.parts.size(); ++i) {
    one.id = PartId(request.id, i);
    one.source = request.parts[i].source;
    one.ranges = request.parts[i].ranges;
    ONECOPY_ASSIGN_OR_RETURN(Ticket ticket, Evaluate(caller, one));
    ticket.whole = request.id;
    tickets.push_back(std::move(ticket));
  }
  Reservation reservation = Describe(tickets.front());
  if (!request.parts.empty()) {
    for (const Ticket& ticket : tickets) reservation.parts.push_back(Describe(ticket));
  }
  if (request.validate_only) return reservation;
  const Owner payer = PayerAt(context_.node(), caller, {request.uid, caller});
  for (Ticket& ticket : tickets) {
    ONECOPY_ASSIGN_OR_RETURN(ticket.charge,
                             context_.ledger.Share(Charged::kTickets, payer, request.administrator,
                                                   FootprintOf(ticket.place.layout)));
  }
  const std::string secret = os::RandomHex(16);
  const os::Clock::time_point expires = os::Clock::now() + kTicketLifetime;
  reservation.lifetime = kTicketLifetime;
  reservation.ticket = request.parts.empty() ? secret : std::string();
  for (size_t i = 0; i < tickets.size(); ++i) {
    std::string text = secret;
    if (!request.parts.empty()) {
      text += kPartMark + std::to_string(i);
      reservation.parts[i].ticket = text;
      reservation.parts[i].lifetime = kTicketLifetime;
    }
    tickets[i].expires = expires;
    Put(text, std::move(tickets[i]));
  }
  return reservation;
}

std::optional<Ticket>* Tickets::Find(const std::string& text) {
  return const_cast<std::optional<Ticket>*>(std::as_const(*this).Find(text));
}

const std::optional<Ticket>* Tickets::Find(const std::string& text) const {
  const auto [secret, part] = Split(text);
  const auto found = tickets_.find(SecretDigest(secret));
  if (found == tickets_.end() || part >= found->second.tickets.size()) return nullptr;
  const std::optional<Ticket>& ticket = found->second.tickets[part];
  const bool meant = ticket && ticket->part() == (text.size() != secret.size());
  return meant ? &ticket : nullptr;
}

void Tickets::Put(const std::string& text, Ticket ticket) {
  const auto [secret, part] = Split(text);
  const SecretDigest digest(secret);
  const auto [at, fresh] = tickets_.try_emplace(digest);
  Entry& kept = at->second;
  if (fresh) {
    const TransferId& of = ticket.part() ? ticket.whole : ticket.transfer;
    kept.of = by_transfer_.emplace(std::pair(ticket.initiator, of), digest);
  }
  if (kept.tickets.size() <= part) kept.tickets.resize(part + 1);
  if (kept.timer == 0) KeepUntil(digest, kept, ticket.expires);
  Record(text, ticket);
  if (kept.tickets[part]) Done(kept.tickets[part]->record);  // of the previous process, too
  kept.tickets[part] = std::move(ticket);
}

void Tickets::Record(const std::string& text, Ticket& ticket) {
  const Buffer* const buffer = buffers_.FindById(ticket.buffer);
  // Ranges can be many, and a record with all of them would be long. A transfer inside the node
  // cannot be resumed.
  const bool none = !records_.on() || ticket.ranged || ticket.record != 0 ||
                    context_.IsSelf(ticket.destination_node);
  if (none || buffer == nullptr || !buffer->survives()) return;
  ticket.record = records_.Put(TicketRecord{text, ticket.transfer, ticket.whole, ticket.buffer,
                                            ticket.range, ticket.destination_node, ticket.initiator,
                                            ticket.owner, ticket.grant});
}

bool Tickets::Revive(const TicketRecord& record) {
  const Buffer* const buffer = buffers_.FindById(record.buffer);
  const bool right =
      (!record.grant || grants_.Find(*record.grant) != nullptr) && records_.CanName(record.owner);
  if (buffer == nullptr || !right || !Contains({0, buffer->bytes}, record.range)) return false;
  Result<MemoryPlace> place = PlaceOf(*buffer, record.range, nullptr);
  const Owner payer = PayerAt(context_.node(), record.initiator, record.owner);
  auto charge = context_.ledger.Share(Charged::kTickets, payer, true);
  if (!place.ok() || !charge.ok()) return false;
  Ticket ticket;
  ticket.transfer = record.transfer;
  ticket.whole = record.whole;
  ticket.buffer = buffer->id;
  ticket.memory = buffer->memory();
  ticket.range = record.range;
  ticket.place = std::move(*place);
  ticket.gaps = HasGaps(*buffer);
  ticket.destination_node = record.destination_node;
  ticket.initiator = record.initiator;
  ticket.owner = record.owner;
  ticket.grant = record.grant;
  ticket.charge = std::move(*charge);
  // A reader that is still interested comes back within that time.
  ticket.expires = os::Clock::now() +
                   std::max<os::Clock::duration>(kTicketLifetime, context_.options.resume_for);
  Put(record.text, std::move(ticket));
  return true;
}

void Tickets::KeepUntil(const SecretDigest& secret, Entry& kept, os::Clock::time_point expires) {
  context_.loop.CancelTimer(kept.timer);
  kept.timer = context_.loop.RunAt(expires, [this, secret] {
    const auto found = tickets_.find(secret);
    if (found != tickets_.end()) Erase(found);
  });
}

void Tickets::Forget(const std::string& text) {
  const SecretDigest secret(Split(text).first);
  std::optional<Ticket>* const ticket = Find(text);
  if (ticket == nullptr) return;
  const bool part = (*ticket)->part();
  ticket->reset();
  const auto kept = tickets_.find(secret);
  const auto& tickets = kept->second.tickets;
  if (std::none_of(tickets.begin(), tickets.end(), [](const auto& one) { return one; })) {
    Erase(kept);
  } else if (part) {
    KeepUntil(secret, kept->second, os::Clock::now() + kTicketLifetime);
  }
}

void Tickets::Erase(Table::iterator kept) {
  for (const std::optional<Ticket>& ticket : kept->second.tickets) {
    if (ticket) Done(ticket->record);
  }
  context_.loop.CancelTimer(kept->second.timer);
  by_transfer_.erase(kept->second.of);
  tickets_.erase(kept);
}

bool Tickets::Withdraw(const std::string& initiator, const TransferId& transfer) {
  const auto [first, last] = by_transfer_.equal_range(std::pair(initiator, transfer));
  const std::vector<std::pair<std::pair<std::string, TransferId>, SecretDigest>> all(first, last);
  for (const auto& [of, secret] : all) Erase(tickets_.find(secret));
  return !all.empty();
}

void Tickets::DropNode(const std::string& initiator) {
  std::vector<SecretDigest> theirs;
  for (auto at = by_transfer_.lower_bound({initiator, TransferId()});
       at != by_transfer_.end() && at->first.first == initiator; ++at) {
    theirs.push_back(at->second);
  }
  for (const SecretDigest& secret : theirs) Erase(tickets_.find(secret));
}

void Tickets::DropBuffer(BufferId buffer, const Status& why) {
  for (auto& [secret, kept] : tickets_) {
    for (std::optional<Ticket>& ticket : kept.tickets) {
      if (ticket && ticket->buffer == buffer) ticket->lost = why;
    }
  }
}

void Tickets::Restore(const std::string& text, Ticket ticket) { Put(text, std::move(ticket)); }

Result<Ticket> Tickets::Look(const std::string& reader, const std::string& text,
                             const TransferId& transfer) const {
  const std::optional<Ticket>* const found = Find(text);
  if (found == nullptr || (*found)->destination_node != reader || (*found)->transfer != transfer) {
    return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                  "node " + reader + " has no ticket for reading from node " + context_.node(),
                  "it may have expired: try again");
  }
  const Ticket& ticket = **found;
  const Buffer* buffer = buffers_.FindById(ticket.buffer);
  if (buffer != nullptr && !buffer->removing.ok()) return buffer->removing;
  if (buffer == nullptr) {
    if (!ticket.lost.ok()) return ticket.lost;
    return Status(
        Code::kNotFound, reasons::kBufferNotFound,
        "the source buffer on node " + context_.node() + " was removed before the transfer began");
  }
  if (ticket.grant && grants_.Find(*ticket.grant) == nullptr) {
    return Status(Code::kPermissionDenied, reasons::kGrantExpired,
                  "the right to read the source buffer ended before the transfer began");
  }
  return ticket;
}

Result<Ticket> Tickets::Take(const std::string& reader, const std::string& text,
                             const TransferId& transfer) {
  Result<Ticket> ticket = Use(reader, text, transfer);
  if (ticket.ok()) {
    Done(ticket->record);
    ticket->record = 0;
  }
  return ticket;
}

Result<Ticket> Tickets::TakeForRun(const std::string& reader, const std::string& text,
                                   const TransferId& transfer) {
  return Use(reader, text, transfer);
}

Result<Ticket> Tickets::Use(const std::string& reader, const std::string& text,
                            const TransferId& transfer) {
  Result<Ticket> ticket = Look(reader, text, transfer);
  const bool refused = !ticket.ok() && ticket.status().reason() == reasons::kAccessDenied;
  if (!refused) {
    if (!ticket.ok()) {
      if (const std::optional<Ticket>* const found = Find(text)) Done((*found)->record);
    }
    Forget(text);
  }
  if (ticket.ok() && ticket->part()) ticket->expires = os::Clock::now() + kTicketLifetime;
  return ticket;
}

}  // namespace onecopy::engine
