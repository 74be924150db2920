// What the audit log says of a call.
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <utility>

#include "daemon/engine/registry/sessions.h"
#include "daemon/log/audit.h"
#include "daemon/rpc/serving/call.h"

namespace onecopy::rpc {

// "CreateGrant", by its request's type.
template <typename Request>
std::string MethodOf() {
  std::string name = Request::descriptor()->name();
  constexpr std::string_view kEnd = "Request";
  if (name.ends_with(kEnd)) name.resize(name.size() - kEnd.size());
  return name;
}

template <typename End>
std::string EndText(const End& end) {
  return end.node().empty() ? end.buffer() : end.node() + ":" + end.buffer();
}

// The buffer, the transfer or the like that a request is about; empty where there is none.
template <typename Request>
std::string TargetOf(const Request& request) {
  if constexpr (requires { EndText(request.source()) + EndText(request.destination()); }) {
    return EndText(request.source()) + " -> " + EndText(request.destination());
  } else if constexpr (requires { EndText(request.source()); }) {
    return EndText(request.source());
  } else if constexpr (requires { EndText(request.destination()); }) {
    return EndText(request.destination());
  } else if constexpr (requires { EndText(request.range()) + request.to(); }) {
    return EndText(request.range()) + " to " + request.to();
  } else if constexpr (requires { EndText(request.range()); }) {
    return EndText(request.range());
  } else if constexpr (requires { request.request().name(); }) {
    return request.request().name();
  } else if constexpr (requires { request.transfer_id(); }) {
    return request.transfer_id();
  } else if constexpr (requires { request.name(); }) {
    return request.name();
  } else if constexpr (requires { request.id(); }) {
    return request.id();
  } else {
    return {};
  }
}

// Whether a method changes what others may do, or is for administrators alone.
inline bool ConcernsRights(const std::string& method) {
  return method == "CreateGrant" || method == "DeleteGrant" || method == "SetLogLevel" ||
         method == "ReleaseDevice" || method == "SetDraining";
}

// Who makes a call, as text.
struct Asking {
  std::string who;
  std::string account;
  std::string from;
};

// Engine thread. The caller, once its token has been looked up; `who` is the result of that.
inline Asking AskingOf(const engine::Sessions& sessions, const Result<engine::Principal>& who,
                       const std::string& presenter) {
  if (!who.ok()) return {"nobody", {}, presenter};
  return {who->ToString(), {}, sessions.Describe(who->session)};
}

// Of a call that no session vouches for.
inline Asking Nobody(const grpc::ServerContext& context) {
  const bool network = context.peer().starts_with("ip");
  return {"nobody", {}, network ? context.peer() : "api.sock"};
}

// Records that a watch began, or why it was refused.
template <typename Request>
void AuditWatch(const Asking& asking, const std::string& target, const Status& why) {
  audit::Write({.who = asking.who,
                .from = asking.from,
                .what = MethodOf<Request>(),
                .on = target,
                .why = why});
}

// Has the call's answer written to the audit log, as far as that wants it.
template <typename Request, typename Reply>
void Audit(Responder<Reply>& responder, Asking asking, std::string target) {
  responder.Observe([asking = std::move(asking), target = std::move(target)](const Status& why) {
    const std::string method = MethodOf<Request>();
    audit::Write({.who = asking.who,
                  .from = asking.from,
                  .what = method,
                  .on = target,
                  .why = why,
                  .rights = ConcernsRights(method),
                  .account = asking.account});
  });
}

}  // namespace onecopy::rpc
