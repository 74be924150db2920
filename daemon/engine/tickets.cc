#include "daemon/engine/tickets.h"

#include "transport/core/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::engine {
namespace {

// Long enough for a destination that waits for its turn with the staging slots.
constexpr std::chrono::minutes kLifetime{10};
constexpr size_t kMostTickets = 100'000;

}  // namespace

Result<ByteRange> ResolveRange(const Endpoint& endpoint, uint64_t buffer_bytes,
                               const std::string& what) {
  ByteRange range{endpoint.offset.value_or(0), 0};
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

Result<Reservation> Tickets::Reserve(const std::string& caller, const ReserveRequest& request) {
  if (context_.draining && !request.validate_only) {
    return Status(Code::kUnavailable, reasons::kDraining,
                  "node " + context_.node() + " is shutting down and takes no new transfers");
  }
  ONECOPY_ASSIGN_OR_RETURN(const Buffer* buffer, buffers_.Find(request.source.buffer));
  const std::string what = "buffer \"" + buffer->name + "\"";
  const Layout* const layout = request.ranges.get();
  ONECOPY_ASSIGN_OR_RETURN(const ByteRange range,
                           layout == nullptr
                               ? ResolveRange(request.source, buffer->bytes, what)
                               : ResolveRanges(request.source, *layout, buffer->bytes, what));
  const Principal who{request.uid, caller, request.administrator && context_.IsSelf(caller), {}};
  ONECOPY_ASSIGN_OR_RETURN(std::optional<GrantId> grant,
                           grants_.Check(who, *buffer, range, Access::kRead));

  Reservation reservation;
  reservation.source = {context_.node(), buffer->name, range.offset, range.bytes};
  reservation.memory = buffer->region->place().kind;
  reservation.device = buffer->region->place().device;
  if (request.validate_only) return reservation;
  if (tickets_.size() >= kMostTickets) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  "node " + context_.node() + " has promised as many transfers as it can",
                  "try again later");
  }
  reservation.ticket = os::RandomHex(16);
  reservation.lifetime = kLifetime;
  const bool scattered = layout != nullptr && !layout->contiguous();
  Keep(reservation.ticket,
       {request.id, buffer->id, range, scattered ? request.ranges : nullptr,
        request.destination_node, caller, Owner{request.uid, caller}, std::move(grant)});
  return reservation;
}

void Tickets::Keep(const std::string& text, Ticket ticket) {
  tickets_[text] = std::move(ticket);
  context_.loop.RunAfter(kLifetime, [this, text] { tickets_.erase(text); });
}

void Tickets::DropBuffer(BufferId buffer, const Status& why) {
  for (auto& [text, ticket] : tickets_) {
    if (ticket.buffer == buffer) ticket.lost = why;
  }
}

void Tickets::Restore(const std::string& text, Ticket ticket) { Keep(text, std::move(ticket)); }

Result<Ticket> Tickets::Take(const std::string& caller, const std::string& ticket,
                             const TransferId& transfer) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end() || found->second.destination_node != caller ||
      found->second.transfer != transfer) {
    return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                  "node " + caller + " has no ticket for reading from node " + context_.node(),
                  "the ticket may have expired: try again");
  }
  Ticket taken = std::move(found->second);
  tickets_.erase(found);
  const Buffer* buffer = buffers_.FindById(taken.buffer);
  if (buffer != nullptr && !buffer->removing.ok()) return buffer->removing;
  if (buffer == nullptr) {
    if (!taken.lost.ok()) return taken.lost;
    return Status(
        Code::kNotFound, reasons::kBufferNotFound,
        "the source buffer on node " + context_.node() + " was removed before the transfer began");
  }
  if (taken.grant && grants_.Find(*taken.grant) == nullptr) {
    return Status(Code::kPermissionDenied, reasons::kGrantExpired,
                  "the right to read the source buffer ended before the transfer began");
  }
  return taken;
}

}  // namespace onecopy::engine
