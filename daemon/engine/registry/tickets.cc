#include "daemon/engine/registry/tickets.h"

#include "onecopy/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::engine {
namespace {

// Long enough for a destination that waits for its turn with the staging slots.
constexpr std::chrono::minutes kTicketLifetime{10};
constexpr size_t kMaxTickets = 100'000;

}  // namespace

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
  ONECOPY_ASSIGN_OR_RETURN(const Buffer* buffer,
                           grants_.FindKnown(buffers_, who, request.source.buffer));
  const std::string what = "buffer \"" + buffer->name + "\"";
  const Layout* const layout = request.ranges.get();
  ONECOPY_ASSIGN_OR_RETURN(const ByteRange range,
                           layout == nullptr
                               ? ResolveRange(request.source, buffer->bytes, what)
                               : ResolveRanges(request.source, *layout, buffer->bytes, what));
  ONECOPY_ASSIGN_OR_RETURN(std::optional<GrantId> grant,
                           grants_.Check(who, *buffer, range, Access::kRead));
  const bool scattered = layout != nullptr && !layout->contiguous();
  return Ticket{request.id,
                buffer->id,
                range,
                scattered ? request.ranges : nullptr,
                request.destination_node,
                caller,
                Owner{request.uid, caller},
                std::move(grant)};
}

Reservation Tickets::Describe(const Ticket& ticket) const {
  const Buffer& buffer = *buffers_.FindById(ticket.buffer);
  Reservation reservation;
  reservation.source = {context_.node(), buffer.name, ticket.range.offset, ticket.range.bytes};
  reservation.memory = buffer.region->place().kind;
  reservation.device = buffer.region->place().device;
  return reservation;
}

Result<Reservation> Tickets::Reserve(const std::string& caller, const ReserveRequest& request) {
  if (context_.draining && !request.validate_only) {
    return Status(Code::kUnavailable, reasons::kDraining,
                  "node " + context_.node() + " is shutting down and takes no new transfers");
  }
  ONECOPY_ASSIGN_OR_RETURN(Ticket ticket, Evaluate(caller, request));
  Reservation reservation = Describe(ticket);
  if (request.validate_only) return reservation;
  if (tickets_.size() >= kMaxTickets) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  "node " + context_.node() + " has promised as many transfers as it can",
                  "try again later");
  }
  reservation.ticket = os::RandomHex(16);
  reservation.lifetime = kTicketLifetime;
  ticket.expires = os::Clock::now() + kTicketLifetime;
  Keep(SecretDigest(reservation.ticket), std::move(ticket));
  return reservation;
}

void Tickets::Keep(const SecretDigest& secret, Ticket ticket) {
  Kept& kept = tickets_[secret];
  kept.ticket = std::move(ticket);
  kept.timer = context_.loop.RunAt(kept.ticket.expires, [this, secret] { tickets_.erase(secret); });
}

void Tickets::Forget(Table::const_iterator kept) {
  context_.loop.CancelTimer(kept->second.timer);
  tickets_.erase(kept);
}

void Tickets::DropBuffer(BufferId buffer, const Status& why) {
  for (auto& [secret, kept] : tickets_) {
    if (kept.ticket.buffer == buffer) kept.ticket.lost = why;
  }
}

void Tickets::Restore(const std::string& text, Ticket ticket) {
  Keep(SecretDigest(text), std::move(ticket));
}

Result<Ticket> Tickets::Look(const std::string& reader, const std::string& text,
                             const TransferId& transfer) const {
  const auto found = tickets_.find(SecretDigest(text));
  if (found == tickets_.end() || found->second.ticket.destination_node != reader ||
      found->second.ticket.transfer != transfer) {
    return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                  "node " + reader + " has no ticket for reading from node " + context_.node(),
                  "the ticket may have expired: try again");
  }
  const Ticket& ticket = found->second.ticket;
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
  Result<Ticket> ticket = Look(reader, text, transfer);
  const bool refused = !ticket.ok() && ticket.status().reason() == reasons::kAccessDenied;
  const auto found = tickets_.find(SecretDigest(text));
  if (found != tickets_.end() && !refused) Forget(found);
  return ticket;
}

}  // namespace onecopy::engine
