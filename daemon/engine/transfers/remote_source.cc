#include "daemon/engine/transfers/remote_source.h"

#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/peers.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// For the source to say that it has ended its part, where a transfer was stopped.
constexpr std::chrono::seconds kStopGrace{1};

}  // namespace

void RemoteSource::Prepare(PrepareRequest request, Reply<PrepareReply> reply) {
  Result<PeerApi*> peer = peers_.Find(node_);
  if (!peer.ok()) return reply(peer.status());
  prepared_ = true;  // even if the answer is lost
  channel_ = request.channel;
  (*peer)->Prepare(
      context_.node(), std::move(request),
      [self = shared_from_this(), reply = std::move(reply)](Result<PrepareReply> prepared) mutable {
        if (!prepared.ok() && prepared.status().code() != Code::kUnavailable) {
          self->prepared_ = false;
        }
        reply(std::move(prepared));
      });
}

void RemoteSource::Finish(bool stopped, uint64_t bytes, MoveOutcome outcome, Move::Done done) {
  outcome_ = std::move(outcome);
  done_ = std::move(done);
  if (!prepared_) return End();
  if (stopped) {
    context_.loop.RunAfter(kStopGrace, [self = shared_from_this()] { self->End(); });
  }
  auto answered = [self = shared_from_this(), stopped, bytes](Result<FinishReply> reply) {
    if (self->done_) self->Finished(stopped, bytes, std::move(reply));  // else too late
  };
  Result<PeerApi*> peer = peers_.Find(node_);
  if (!peer.ok()) return answered(peer.status());
  (*peer)->Finish(context_.node(), {id_, outcome_.status, checksum_, channel_, unproven_},
                  std::move(answered));
}

void RemoteSource::Finished(bool stopped, uint64_t bytes, Result<FinishReply> reply) {
  std::vector<ExecutedStep> steps;
  if (reply.ok()) {
    // What the source saw is why, where this side only saw that nothing came any more.
    if (!reply->failure.ok() && !stopped) {
      outcome_.status = reply->failure.WithContext("node " + node_);
    }
    outcome_.source_checksum = std::move(reply->checksum);
    outcome_.source_shared = reply->shared;
    if (!reply->storage.empty()) outcome_.evidence["storage"] = std::move(reply->storage);
    steps = std::move(reply->steps);
  } else if (outcome_.status.ok() || outcome_.bytes > 0) {
    // The bytes are here anyway. The source's steps are those that it promised.
    steps = promised_;
    outcome_.source_shared = true;
    for (ExecutedStep& step : steps) step.bytes = outcome_.status.ok() ? bytes : outcome_.bytes;
    outcome_.evidence["source steps"] = "as promised: node " + node_ + " did not answer";
  }
  if (!reply.ok() && outcome_.status.code() == Code::kPermissionDenied) {
    // A daemon that dies takes its keys with it before its queue pairs: what looks like a right
    // that was withdrawn is a peer that is gone.
    outcome_.status = {Code::kUnavailable, reasons::kPeerDown,
                       "node " + node_ +
                           ", which sends the bytes, no longer answers; before that, " +
                           outcome_.status.message(),
                       "try again when it answers: onecopy node ls"};
  }
  const bool lost = !reply.ok() && (reply.status().code() == Code::kUnavailable ||
                                    reply.status().reason() == reasons::kPeerDown);
  if (lost && checksum_ && !stopped && outcome_.status.ok()) {
    // All bytes are here, and unproven. What asks again for the last of them has the checksum, too.
    outcome_.status = {Code::kUnavailable, reasons::kPeerDown,
                       "the data was transferred, but its checksum is unknown: node " + node_ +
                           " did not answer with the source's checksum",
                       "try again when it answers: onecopy node ls"};
  }
  outcome_.steps.insert(outcome_.steps.begin(), steps.begin(), steps.end());
  End();
}

void RemoteSource::End() {
  if (done_) std::exchange(done_, nullptr)(std::move(outcome_));
}

}  // namespace onecopy::engine
