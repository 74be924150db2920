#include "daemon/engine/arrivals/messages.h"

#include <xxhash.h>

#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// What makes two requests the same.
std::string ContentOf(const MessageRequest& asked) {
  const XXH128_hash_t hash = XXH3_128bits(asked.message.data(), asked.message.size());
  return asked.destination.buffer + " " + std::to_string(hash.high64) + "-" +
         std::to_string(hash.low64);
}

}  // namespace

Status Messages::Take(const std::string& caller, const PeerMessage& message) {
  if (context_.stopping) {
    return {Code::kUnavailable, reasons::kDraining,
            "node " + context_.node() + " is shutting down"};
  }
  const bool here = context_.IsSelf(caller);
  const Principal who{message.uid, caller, message.administrator && here, {}};
  // Another node's word says for which of its users it asks: it pays as a whole.
  const Owner payer = PayerAt(context_.node(), caller, OwnerOf(who));
  const MessageRequest& asked = message.asked;
  std::string id = asked.request_id;
  if (!id.empty() && !here) id = who.uid.ToString() + " " + id;
  using Log = RequestLog<bool>;
  ONECOPY_ASSIGN_OR_RETURN(
      const Log::Seen seen,
      requests_.Begin(payer, who.administrator, id, ContentOf(asked), [](const Result<bool>&) {}));
  // It is told, or refused, before another one is looked at: there is nothing to wait for.
  if (seen.action != Log::Action::kProceed) return OkStatus();
  const Status told = Tell(who, asked);
  requests_.Conclude(payer, id, told.ok() ? Result<bool>(true) : Result<bool>(told));
  return told;
}

Status Messages::Tell(const Principal& who, const MessageRequest& asked) {
  ONECOPY_ASSIGN_OR_RETURN(Buffer* const buffer,
                           grants_.FindKnown(buffers_, who, asked.destination.buffer));
  ONECOPY_RETURN_IF_ERROR(grants_.CheckWritesSome(who, *buffer));
  ONECOPY_ASSIGN_OR_RETURN(Arrivals::Room room, arrivals_.Reserve(*buffer, asked.message.size()));
  Arrival arrival;
  arrival.from = OwnerOf(who).ToString();
  arrival.message = asked.message;
  arrivals_.Deliver(*buffer, std::move(arrival), std::move(room));
  return OkStatus();
}

}  // namespace onecopy::engine
