#include "daemon/rpc/serving/arrival_stream.h"

#include <optional>
#include <string>
#include <utility>

#include "daemon/rpc/convert/client.h"
#include "daemon/rpc/identity/caller.h"
#include "daemon/rpc/serving/audited.h"
#include "proto/codec/protocol.h"

namespace onecopy::rpc {
namespace {

using engine::ClientApi;
using engine::Principal;
using Watcher = Subscriber<v1::WatchArrivalsResponse>;

// Engine thread, but for its last reference.
class ArrivalStream : public std::enable_shared_from_this<ArrivalStream> {
 public:
  ArrivalStream(EngineSide there, engine::Owner payer, std::weak_ptr<Watcher> watcher)
      : there_(std::move(there)), payer_(std::move(payer)), watcher_(std::move(watcher)) {}

  // Any thread; in this order.
  void Post(Task task) const { there_.turns.Post(payer_, std::move(task)); }

  Status Begin(const Presented& presented, const std::string& buffer) {
    const Result<Principal> who = there_.sessions.FindFor(presented.token, presented.by);
    const Status status = who.ok() ? BeginAs(*who, buffer) : who.status();
    AuditWatch<v1::WatchArrivalsRequest>(AskingOf(there_.sessions, who, presented.by), buffer,
                                         status);
    return status;
  }

  void End() {
    if (watch_) there_.api.UnwatchArrivals(*watch_);
    watch_.reset();
  }

  void OnSent() {
    sending_ = false;
    Pump();
  }

 private:
  Status BeginAs(const Principal& who, const std::string& buffer) {
    ONECOPY_ASSIGN_OR_RETURN(Share share, there_.ledger.Share(engine::Charged::kRequests,
                                                              OwnerOf(who), who.administrator));
    const auto call = watcher_.lock();
    if (!call) return OkStatus();
    call->Keep(std::move(share));
    ONECOPY_ASSIGN_OR_RETURN(watch_,
                             there_.api.WatchArrivals(who, buffer, [weak = weak_from_this()] {
                               if (const auto self = weak.lock()) self->Pump();
                             }));
    Pump();
    return OkStatus();
  }

  void Pump() {
    const auto call = watcher_.lock();
    if (sending_ || !watch_ || !call) return;
    const engine::ArrivalsTold told = there_.api.TakeArrivals(*watch_);
    const bool news = !told.batch.arrivals.empty() || told.batch.missed > 0;
    if (!news && begun_) {
      if (!told.end.ok()) call->Fail(told.end);
      return;
    }
    v1::WatchArrivalsResponse message;
    message.set_watch(*watch_);
    message.set_missed(told.batch.missed);
    for (const Arrival& arrival : told.batch.arrivals) Print(arrival, message.add_arrivals());
    begun_ = sending_ = true;
    call->Update(std::move(message), false);
  }

  const EngineSide there_;
  const engine::Owner payer_;
  const std::weak_ptr<Watcher> watcher_;
  std::optional<ClientApi::WatchId> watch_;
  bool begun_ = false;    // the client knows that it watches
  bool sending_ = false;  // an answer is not on its way yet
};

}  // namespace

void ServeArrivals(const EngineSide& there, const grpc::ServerContext& context,
                   const v1::WatchArrivalsRequest& request, const std::weak_ptr<Watcher>& watcher) {
  const auto call = watcher.lock();
  if (!call) return;
  const Result<Presented> presented = PresentedBy(*there.presenters, context);
  if (!presented.ok()) {
    AuditWatch<v1::WatchArrivalsRequest>(Nobody(context), request.buffer(), presented.status());
    return call->Fail(presented.status());
  }
  Result<std::string> buffer = Parse(request);
  if (!buffer.ok()) return call->Fail(buffer.status());
  const auto stream = std::make_shared<ArrivalStream>(there, presented->payer.owner, watcher);
  call->OnSent([stream] { stream->Post([stream] { stream->OnSent(); }); });
  stream->Post([stream, presented = *presented, buffer = *std::move(buffer), watcher] {
    const Status status = stream->Begin(presented, buffer);
    if (const auto waiting = watcher.lock(); waiting && !status.ok()) waiting->Fail(status);
  });
  std::shared_ptr<void> proof =
      there.presenters->WhenUnproven(context, [watcher](const Status& why) {
        if (const auto waiting = watcher.lock()) waiting->Fail(why);
      });
  // Comes after that task in the engine's queue, or not at all.
  call->OnEnd([stream, proof = std::move(proof)] { stream->Post([stream] { stream->End(); }); });
}

}  // namespace onecopy::rpc
