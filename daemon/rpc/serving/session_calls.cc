#include "daemon/rpc/serving/session_calls.h"

#include <optional>
#include <utility>

#include "daemon/log/audit.h"
#include "onecopy/reasons.h"
#include "proto/codec/protocol.h"
#include "proto/codec/utf8.h"

namespace onecopy::rpc {
namespace {

using Caller = std::weak_ptr<Subscriber<v1::Session>>;

// As attach.sock's sessions are.
void AuditOpening(const std::string& who, const std::string& from, const Status& why) {
  audit::Write({.who = who, .from = from, .what = "Attach", .on = {}, .why = why});
}

Result<uint32_t> Agree(const v1::OpenSessionRequest& request, const std::string& version) {
  if (request.protocol_min() == 0 && request.protocol_max() == 0) return kClientProtocolMax;
  return AgreeOnClientProtocol(request.protocol_min(), request.protocol_max(), version);
}

// Engine thread. The session of a call that is still there.
Result<std::optional<engine::SessionId>> Open(const SessionCalls& there,
                                              const engine::ClientIdentity& identity,
                                              uint32_t protocol, const Caller& caller) {
  const auto call = caller.lock();
  if (!call) return std::optional<engine::SessionId>();
  ONECOPY_ASSIGN_OR_RETURN(const engine::Sessions::Opened opened, there.sessions.Open(identity));
  const engine::Principal who = *there.sessions.PrincipalOf(opened.id);
  auto share = there.ledger.Share(engine::Charged::kRequests, OwnerOf(who), who.administrator);
  if (!share.ok()) {
    there.sessions.Close(opened.id);
    return share.status();
  }
  call->Keep(*std::move(share));
  v1::Session message;
  message.set_protocol(protocol);
  message.set_token(opened.token);
  message.set_node(there.node);
  message.set_version(there.version);
  message.set_owner(who.ToString());
  call->Update(std::move(message), false);
  return std::optional<engine::SessionId>(opened.id);
}

void OpenSession(const SessionCalls& there, const grpc::ServerContext& context,
                 const v1::OpenSessionRequest& request, const Caller& caller) {
  const auto call = caller.lock();
  if (!call) return;
  const auto refuse = [&](const std::string& who, const std::string& from, const Status& why) {
    AuditOpening(who, from, why);
    call->Fail(why);
  };
  Result<engine::ClientIdentity> identity = there.presenters->Identity(context);
  if (!identity.ok()) return refuse("nobody", context.peer(), identity.status());
  identity->program = CutUtf8(request.client(), kMaxProgramBytes);
  const Result<uint32_t> protocol = Agree(request, there.version);
  if (!protocol.ok()) {
    return refuse("uid " + identity->uid.ToString(), identity->ToString(), protocol.status());
  }
  std::shared_ptr<void> watch =
      there.presenters->WhenUnproven(context, [caller](const Status& why) {
        if (const auto call = caller.lock()) call->Fail(why);
      });
  // On the engine's thread; set once there is a session.
  const auto session = std::make_shared<std::optional<engine::SessionId>>();
  const engine::Owner payer{identity->uid, there.node};
  there.turns.Post(
      payer, [there, identity = *std::move(identity), protocol = *protocol, caller, session] {
        auto opened = Open(there, identity, protocol, caller);
        if (opened.ok() && !*opened) return;  // nobody waits for it any more
        if (opened.ok()) *session = *opened;
        const std::string who = opened.ok() ? there.sessions.PrincipalOf(**session)->ToString()
                                            : "uid " + identity.uid.ToString();
        AuditOpening(who, identity.ToString(), opened.ok() ? OkStatus() : opened.status());
        if (const auto call = caller.lock(); call && !opened.ok()) call->Fail(opened.status());
      });
  // Comes after that task in the engine's queue, or not at all.
  call->OnEnd([there, payer, session, watch = std::move(watch)] {
    there.turns.Post(payer, [there, session] {
      if (*session) there.sessions.Close(**session);
    });
  });
}

}  // namespace

void ServeSessions(Unread<v1::SessionService>& service, const Serving& serving,
                   SessionCalls there) {
  ServeStream(service, &Unread<v1::SessionService>::RequestOpenSession, serving,
              [there = std::move(there)](
                  const grpc::ServerContext& context, const v1::OpenSessionRequest& request,
                  const Caller& caller) { OpenSession(there, context, request, caller); });
}

}  // namespace onecopy::rpc
