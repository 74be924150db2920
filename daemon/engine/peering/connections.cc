#include "daemon/engine/peering/connections.h"

#include <iterator>
#include <utility>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

constexpr std::chrono::seconds kIdleLimit{60};
// Of one peer by one link: it reads by one, and those before it may not have ended yet.
constexpr size_t kMostAccepted = 8;
constexpr const char* kLoopback = "127.0.0.1";

}  // namespace

void Connections::Get(const std::string& peer, const std::string& link, Reply<Use> reply) {
  const Key key{peer, link};
  const auto known = reading_.find(key);
  if (known != reading_.end() && known->second.connection != nullptr) {
    if (!known->second.connection->closed()) return reply(MakeUse(key));
    Forget(key, known->second.serial);  // of its end will be heard here in a moment
  }
  Reading& reading = reading_[key];
  reading.waiting.push_back(std::move(reply));
  if (reading.waiting.size() > 1) return;
  reading.serial = next_serial_++;
  Dial(key, reading.serial);
}

void Connections::Dial(const Key& key, uint64_t serial) {
  Link* link = context_.FindLink(key.second);
  if (link == nullptr) {
    return Conclude(
        key, serial,
        Status(Code::kFailedPrecondition, reasons::kLinkMissing, "no link " + key.second), 0);
  }
  link->Dial(key.first, [this, key, serial](Result<std::unique_ptr<Dialing>> dialing) {
    context_.loop.Post([this, key, serial, dialing = std::move(dialing)]() mutable {
      if (!dialing.ok()) return Conclude(key, serial, dialing.status(), 0);
      Ask(key, serial, std::move(*dialing));
    });
  });
}

void Connections::Ask(const Key& key, uint64_t serial, std::shared_ptr<Dialing> dial) {
  const ConnectRequest request{key.second, dial->offer()};
  auto answered = [this, key, serial, dial](Result<ConnectReply> reply) {
    if (!reply.ok()) return Conclude(key, serial, reply.status(), 0);
    dial->Establish(reply->host, reply->answer,
                    [this, key, serial, dial, number = reply->connection](auto connection) mutable {
                      context_.loop.Post([this, key, serial, number,
                                          connection = std::move(connection)]() mutable {
                        Conclude(key, serial, std::move(connection), number);
                      });
                    });
  };
  if (context_.IsSelf(key.first)) {
    return Accept(key.first, request, [answered](Result<ConnectReply> reply) mutable {
      if (reply.ok()) reply->host = kLoopback;
      answered(std::move(reply));
    });
  }
  Result<PeerApi*> peer = peers_.Find(key.first);
  if (!peer.ok()) return Conclude(key, serial, peer.status(), 0);
  (*peer)->Connect(context_.node(), request, std::move(answered));
}

void Connections::Conclude(const Key& key, uint64_t serial,
                           Result<std::shared_ptr<Connection>> connection, uint64_t number) {
  const auto found = reading_.find(key);
  if (found == reading_.end() || found->second.serial != serial) {
    if (connection.ok()) {
      (*connection)->Close({Code::kCancelled, reasons::kCancelled, "given up before it was made"});
    }
    return;
  }
  std::vector<Reply<Use>> waiting = std::exchange(found->second.waiting, {});
  if (!connection.ok()) {
    reading_.erase(found);
    log::Warning(
        "a link could not connect",
        {{"peer", key.first}, {"link", key.second}, {"why", connection.status().ToString()}});
    for (Reply<Use>& reply : waiting) reply(connection.status());
    return;
  }
  found->second.connection = *connection;
  found->second.number = number;
  (*connection)
      ->OnClosed([this, key, serial, weak = std::weak_ptr(*connection)](const Status& why) {
        context_.loop.Post([this, key, serial, weak, why] {
          Forget(key, serial);
          if (const auto gone = weak.lock()) reading_closed_(*gone, why);
          log::Info("connection closed",
                    {{"peer", key.first}, {"link", key.second}, {"why", why.ToString()}});
        });
      });
  (*connection)->OnAddress([this, key, serial](const std::string& address, const Status& why) {
    context_.loop.Post([this, key, serial, address, why] { AddressIs(key, serial, address, why); });
  });
  log::Info("connected", {{"peer", key.first},
                          {"link", key.second},
                          {"lanes", std::to_string((*connection)->lanes().size())}});
  for (Reply<Use>& reply : waiting) reply(MakeUse(key));
}

void Connections::AddressIs(const Key& key, uint64_t serial, const std::string& address,
                            const Status& why) {
  const auto found = reading_.find(key);
  if (found == reading_.end() || found->second.serial != serial) return;
  if (why.ok()) {
    found->second.silent.erase(address);
    return log::Info("an address of a peer answers again: it is used",
                     {{"peer", key.first}, {"link", key.second}, {"address", address}});
  }
  found->second.silent.insert(address);
  log::Warning(
      "an address of a peer does not answer: its others carry all",
      {{"peer", key.first}, {"link", key.second}, {"address", address}, {"why", why.ToString()}});
}

std::vector<std::string> Connections::SilentAddresses(const std::string& peer) const {
  std::vector<std::string> silent;
  for (auto one = reading_.lower_bound({peer, ""});
       one != reading_.end() && one->first.first == peer; ++one) {
    silent.insert(silent.end(), one->second.silent.begin(), one->second.silent.end());
  }
  return silent;
}

Connections::Use Connections::MakeUse(const Key& key) {
  Reading& reading = reading_.at(key);
  ++reading.uses;
  context_.loop.CancelTimer(std::exchange(reading.idle_timer, 0));
  const uint64_t serial = reading.serial;
  return {reading.connection, reading.number,
          std::shared_ptr<void>(nullptr, [this, key, serial](void*) {
            context_.loop.Post([this, key, serial] { EndUse(key, serial); });
          })};
}

void Connections::EndUse(const Key& key, uint64_t serial) {
  const auto found = reading_.find(key);
  if (found == reading_.end() || found->second.serial != serial) return;
  if (--found->second.uses > 0) return;
  found->second.idle_timer = context_.loop.RunAfter(kIdleLimit, [this, key, serial] {
    const std::shared_ptr<Connection> unused = Forget(key, serial);
    if (unused != nullptr) {
      unused->Close({Code::kCancelled, reasons::kCancelled, "closed after a minute without use"});
    }
  });
}

std::shared_ptr<Connection> Connections::Forget(const Key& key, uint64_t serial) {
  const auto found = reading_.find(key);
  if (found == reading_.end() || found->second.serial != serial) return nullptr;
  context_.loop.CancelTimer(found->second.idle_timer);
  std::shared_ptr<Connection> connection = std::move(found->second.connection);
  reading_.erase(found);
  return connection;
}

Status Connections::Heard(const Use& use, const Status& answer) {
  if (answer.code() != Code::kNotFound || answer.reason() != reasons::kLinkDown) return answer;
  const Status lost(Code::kUnavailable, answer.reason(), answer.message(), answer.remedy());
  use.connection->Close(lost);
  return lost;
}

void Connections::Accept(const std::string& caller, const ConnectRequest& request,
                         Reply<ConnectReply> reply) {
  Link* link = context_.FindLink(request.link);
  if (link == nullptr) {
    return reply(Status(Code::kFailedPrecondition, reasons::kLinkMissing,
                        "node " + context_.node() + " has no link \"" + request.link + "\""));
  }
  link->Accept(caller, request.offer,
               [this, caller, name = request.link,
                reply = std::move(reply)](Result<Link::Accepted> accepted) mutable {
                 context_.loop.Post([this, caller, name, reply = std::move(reply),
                                     accepted = std::move(accepted)]() mutable {
                   if (!accepted.ok()) return reply(accepted.status());
                   reply(Remember(caller, name, std::move(*accepted)));
                 });
               });
}

ConnectReply Connections::Remember(const std::string& caller, const std::string& link,
                                   Link::Accepted accepted) {
  // Not one after the other: a reader may still hold the number of a connection with this node's
  // life before this one.
  uint64_t number = os::RandomNumber();
  while (number == 0 || accepted_.contains(number)) ++number;
  MakeRoomFor(caller, link);
  accepted_[number] = {caller, next_serial_++, {link, accepted.connection}};
  accepted.connection->OnClosed([this, number](const Status& why) {
    context_.loop.Post([this, number, why] {
      if (accepted_.erase(number) > 0) answered_closed_(number, why);
    });
  });
  ConnectReply reply;
  reply.answer = std::move(accepted.answer);
  reply.connection = number;
  return reply;
}

void Connections::MakeRoomFor(const std::string& peer, const std::string& link) {
  CloseOldest(
      kMostAccepted,
      [&](const Accepted& one) { return one.peer == peer && one.serving.link == link; },
      "node " + peer + " asked for newer connections of link " + link);
  // Names that certificates prove are not free to invent.
  if (context_.options.names_proven || !IsUnconnected(peer)) return;
  CloseOldest(
      kMostOfUnconnected, [this](const Accepted& one) { return IsUnconnected(one.peer); },
      "nodes that node " + context_.node() + " is not connected to asked for " +
          std::to_string(kMostOfUnconnected) + " newer connections");
}

bool Connections::IsUnconnected(const std::string& peer) const {
  return !context_.IsSelf(peer) && !peers_.IsConnected(peer);
}

void Connections::CloseOldest(size_t most, const std::function<bool(const Accepted&)>& counted,
                              const std::string& why) {
  if (accepted_.size() < most) return;
  size_t open = 0;
  const Accepted* oldest = nullptr;
  for (const auto& [number, one] : accepted_) {
    if (one.serving.connection->closed() || !counted(one)) continue;
    ++open;
    if (oldest == nullptr || one.serial < oldest->serial) oldest = &one;
  }
  if (open < most) return;
  const std::shared_ptr<Connection> replaced = oldest->serving.connection;
  replaced->Close({Code::kUnavailable, reasons::kLinkDown, why});
}

Result<Connections::Serving> Connections::FindAccepted(const std::string& caller,
                                                       uint64_t number) const {
  const auto found = accepted_.find(number);
  if (found == accepted_.end() || found->second.peer != caller ||
      found->second.serving.connection->closed()) {
    return Status(Code::kNotFound, reasons::kLinkDown,
                  "the connection on which node " + caller + " wants to read is closed");
  }
  return found->second.serving;
}

void Connections::DropPeer(const std::string& peer, const Status& why) {
  std::vector<std::shared_ptr<Connection>> open;  // what closes changes the tables
  std::vector<Reply<Use>> waiting;
  for (auto one = reading_.lower_bound({peer, ""});
       one != reading_.end() && one->first.first == peer;) {
    Reading& reading = one->second;
    if (reading.connection != nullptr) {
      open.push_back(reading.connection);
      ++one;
      continue;
    }
    std::move(reading.waiting.begin(), reading.waiting.end(), std::back_inserter(waiting));
    one = reading_.erase(one);
  }
  for (const auto& [number, accepted] : accepted_) {
    if (accepted.peer == peer) open.push_back(accepted.serving.connection);
  }
  for (const auto& connection : open) connection->Close(why);
  for (Reply<Use>& reply : waiting) reply(why);
}

void Connections::Clear() {
  reading_.clear();
  accepted_.clear();
}

}  // namespace onecopy::engine
