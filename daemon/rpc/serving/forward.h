// From a call of gRPC to a method of the engine's interfaces, and its reply back, by type alone: a
// request's Parse gives the method's arguments, a reply's Print the message.
#pragma once

#include <google/protobuf/empty.pb.h>

#include <tuple>
#include <type_traits>
#include <utility>

#include "daemon/engine/api/types.h"
#include "daemon/rpc/convert/peer.h"
#include "daemon/rpc/serving/call.h"

namespace onecopy::rpc {

// What a Parse gives, as arguments.
template <typename T>
std::tuple<T> AsArguments(T&& value) {
  return std::tuple<T>(std::forward<T>(value));
}
template <typename... Ts>
std::tuple<Ts...> AsArguments(std::tuple<Ts...>&& values) {
  return std::move(values);
}

// The engine's reply that answers a call.
template <typename Message>
engine::StatusReply ForwardStatus(Responder<Message> responder) {
  return [responder = std::move(responder)](Status status) mutable {
    if (!status.ok()) return responder(status);
    responder(Message());
  };
}
template <typename T, typename Message>
engine::Reply<T> ForwardReply(Responder<Message> responder) {
  return [responder = std::move(responder)](Result<T> result) mutable {
    if (!result.ok()) return responder(result.status());
    Message message;
    Print(*result, &message);
    responder(std::move(message));
  };
}

template <typename EngineReply>
struct ReplyTo;
template <>
struct ReplyTo<engine::StatusReply> {
  template <typename Message>
  static engine::StatusReply Make(Responder<Message> responder) {
    return ForwardStatus(std::move(responder));
  }
};
template <typename T>
struct ReplyTo<engine::Reply<T>> {
  template <typename Message>
  static engine::Reply<T> Make(Responder<Message> responder) {
    return ForwardReply<T>(std::move(responder));
  }
};

// Calls `(api.*method)(who, arguments…, reply)`. Engine thread.
template <typename Api, typename Who, typename... Parameters, typename Arguments, typename Message>
void Forward(Api& api, void (Api::*method)(const Who&, Parameters...), const Who& who,
             Arguments&& arguments, Responder<Message> responder) {
  using EngineReply = std::tuple_element_t<sizeof...(Parameters) - 1,
                                           std::tuple<std::remove_cvref_t<Parameters>...>>;
  std::apply(
      [&](auto&&... values) {
        (api.*method)(who, std::forward<decltype(values)>(values)...,
                      ReplyTo<EngineReply>::Make(std::move(responder)));
      },
      std::forward<Arguments>(arguments));
}

}  // namespace onecopy::rpc
