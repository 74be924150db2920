// Two ends of a link in one process, connected as two daemons would.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "transport/core/contracts/link.h"

namespace onecopy::testing {

struct LinkPair {
  std::unique_ptr<Link> owner;
  std::unique_ptr<Link> reader;

  ~LinkPair() {
    if (reader != nullptr) reader->Shutdown();
    if (owner != nullptr) owner->Shutdown();
  }
};

// What a message says, as a link takes it.
inline std::span<const std::byte> MessageBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The outcome of one get, waited for.
struct Got {
  Status status;
  StepList steps;
  unsigned lane = 0;
};

// A connection of the pair, both ends. Memory is registered as it is used, as an engine does.
struct Connected {
  LinkPair* links = nullptr;
  std::shared_ptr<Connection> owner;
  std::shared_ptr<Connection> reader;

  Result<RemoteKey> Export(const Span& span) const {
    ONECOPY_ASSIGN_OR_RETURN(const auto registered, links->owner->Register(span.region));
    (void)registered;
    std::promise<Result<RemoteKey>> exported;
    owner->Export(span, [&](Result<RemoteKey> key) { exported.set_value(std::move(key)); });
    return exported.get_future().get();
  }

  Result<RemoteKey> Lend(const Span& span) const {
    ONECOPY_ASSIGN_OR_RETURN(const auto registered, links->owner->Register(span.region));
    (void)registered;
    std::promise<Result<RemoteKey>> lent;
    owner->Lend(span, [&](Result<RemoteKey> key) { lent.set_value(std::move(key)); });
    return lent.get_future().get();
  }
  // Both ends, as when a slot has been read.
  void EndLoan(const RemoteKey& key) const {
    reader->Release(key);
    std::promise<void> ended;
    owner->EndLoan(key, [&] { ended.set_value(); });
    ended.get_future().wait();
  }

  std::future<Got> StartGet(const GetRequest& request) const {
    auto promise = std::make_shared<std::promise<Got>>();
    std::future<Got> future = promise->get_future();
    const auto registered = links->reader->Register(request.into.region);
    if (!registered.ok()) {
      promise->set_value({registered.status(), nullptr, 0});
      return future;
    }
    reader->Get(request, [promise](Status status, const StepList& steps, unsigned lane) {
      promise->set_value({std::move(status), steps, lane});
    });
    return future;
  }
};

inline Result<std::unique_ptr<Dialing>> Dial(Link& link, const std::string& peer) {
  std::promise<Result<std::unique_ptr<Dialing>>> dialled;
  link.Dial(peer, [&](auto dialing) { dialled.set_value(std::move(dialing)); });
  return dialled.get_future().get();
}

inline Result<Link::Accepted> Accept(Link& link, const std::string& peer,
                                     const std::string& offer) {
  std::promise<Result<Link::Accepted>> answered;
  link.Accept(peer, offer, [&](auto accepted) { answered.set_value(std::move(accepted)); });
  return answered.get_future().get();
}

inline Result<Connected> Connect(LinkPair& links) {
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<Dialing> dialing, Dial(*links.reader, "owner"));
  ONECOPY_ASSIGN_OR_RETURN(Link::Accepted accepted,
                           Accept(*links.owner, "reader", dialing->offer()));
  std::promise<Result<std::shared_ptr<Connection>>> established;
  dialing->Establish("127.0.0.1", accepted.answer,
                     [&](auto connection) { established.set_value(std::move(connection)); });
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<Connection> reader, established.get_future().get());
  return Connected{&links, std::move(accepted.connection), std::move(reader)};
}

inline void RevokeAndWait(Connection& connection, const RemoteKey& key) {
  std::promise<void> done;
  connection.Revoke(key, [&] { done.set_value(); });
  done.get_future().wait();
}

}  // namespace onecopy::testing
