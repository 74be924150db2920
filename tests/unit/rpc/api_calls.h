// Calls of api.sock's methods, and what of them arrives at the engine.
#pragma once

#include <tuple>

#include "onecopy/result.h"
#include "tests/unit/rpc/rpc_rig.h"

namespace onecopy::rpc {

// Calls a method of a stub, with the rig's session.
template <typename Reply, typename Stub, typename Method, typename Request>
Result<Reply> Ask(const ApiRig& rig, Stub& stub, Method method, const Request& request) {
  Reply reply;
  const auto context = rig.Context();
  const grpc::Status status = (stub.*method)(context.get(), request, &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

// The engine was asked by `method`, on behalf of the session, with these arguments.
template <typename... Ts>
std::tuple<Ts...> Asked(ApiRig& rig, const std::string& method) {
  std::tuple<Ts...> arguments;
  std::string asked;
  engine::Principal who;
  rig.engine.Run([&] {
    asked = rig.api.script.method();
    who = rig.api.who;
    arguments = rig.api.script.arguments<Ts...>();
  });
  CHECK(asked == method);
  CHECK(who.uid == 1000);
  CHECK(who.node == "east");
  CHECK_FALSE(who.session.empty());
  return arguments;
}

template <typename T>
void AnswerWith(ApiRig& rig, T answer) {
  rig.engine.Run([&] { rig.api.script.AnswerWith(std::move(answer)); });
}
using Transfers = v1::TransferService::Stub;
using Buffers = v1::BufferService::Stub;
using Nodes = v1::NodeService::Stub;

}  // namespace onecopy::rpc
