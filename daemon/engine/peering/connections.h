// Connections of links to peers: made when a transfer first needs one, shared by all that follow,
// closed when nobody has needed it for a while.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/peers.h"

namespace onecopy::engine {

// Engine thread.
class Connections {
 public:
  // A reader's use of a connection; it stays open for as long as one lives.
  struct Use {
    std::shared_ptr<Connection> connection;
    uint64_t number = 0;  // by which the owner knows it
    std::shared_ptr<void> token;
  };

  // So many connections, of all nodes together to which this one is not connected, are answered at
  // a time: without TLS, one machine can call by ever new names. A peer that calls is connected a
  // moment later, so those that are needed are among the newest.
  static constexpr size_t kMostOfUnconnected = 256;

  Connections(Context& context, Peers& peers) : context_(context), peers_(peers) {}

  // A connection on which this node reads from `peer`, which may be this node: the end that serves
  // it is then found like any other's.
  void Get(const std::string& peer, const std::string& link, Reply<Use> reply);

  // Answers a peer that wants to read from this node. Its oldest connection by this link is closed
  // where it has as many as it can need; where the caller is not connected, likewise the oldest of
  // kMostOfUnconnected. So the connections of a connected peer are closed for its own sake only.
  void Accept(const std::string& caller, const ConnectRequest& request, Reply<ConnectReply> reply);
  // A peer's use of a connection that it reads on.
  struct Serving {
    std::string link;
    std::shared_ptr<Connection> connection;
  };
  // The connection that this node answered with this number; NOT_FOUND (LINK_DOWN) unless `caller`
  // was the one to ask, and it still stands. No other answer to a peer has this code and reason: it
  // means that the peer should connect again.
  Result<Serving> FindAccepted(const std::string& caller, uint64_t number) const;

  // Takes note of what the owner answered to something that was asked for on a connection. Where it
  // says that it has no such connection, this end of it is closed, and who asks next connects anew.
  // Returns the answer, such a one as UNAVAILABLE.
  Status Heard(const Use& use, const Status& answer);

  // Of connections that this node answered: `closed` hears their numbers. Set once.
  void OnAnsweredClosed(std::function<void(uint64_t number, const Status& why)> closed) {
    answered_closed_ = std::move(closed);
  }

  // Of connections on which this node reads: `closed` hears of them. Set once.
  void OnReadingClosed(std::function<void(const Connection&, const Status& why)> closed) {
    reading_closed_ = std::move(closed);
  }

  // HOST:PORT where that peer does not answer, of connections on which this node reads.
  std::vector<std::string> SilentAddresses(const std::string& peer) const;

  // Closes whatever this node has open to that peer, in both directions, and gives up what is being
  // made.
  void DropPeer(const std::string& peer, const Status& why);

  void Clear();  // at the engine's end

 private:
  using Key = std::pair<std::string, std::string>;  // peer, link
  struct Reading {
    std::shared_ptr<Connection> connection;
    uint64_t number = 0;  // the owner's
    uint64_t serial = 0;  // tells it from those before and after it, also while it is being made
    size_t uses = 0;
    os::EventLoop::TimerId idle_timer = 0;
    std::vector<Reply<Use>> waiting;  // while it is being made
    std::set<std::string> silent;     // see SilentAddresses
  };
  struct Accepted {
    std::string peer;
    uint64_t serial = 0;  // tells which one is older
    Serving serving;
  };

  void Dial(const Key& key, uint64_t serial);
  void Ask(const Key& key, uint64_t serial, std::shared_ptr<Dialing> dial);
  ConnectReply Remember(const std::string& caller, const std::string& link,
                        Link::Accepted accepted);
  // See Accept.
  void MakeRoomFor(const std::string& peer, const std::string& link);
  // Closes the oldest of those that are open and `counted`, if they are `most` or more.
  void CloseOldest(size_t most, const std::function<bool(const Accepted&)>& counted,
                   const std::string& why);
  // Whether only a caller has said the peer's name: this node has not reached that peer.
  bool IsUnconnected(const std::string& peer) const;
  // Closes what was made for an attempt that has been given up meanwhile.
  void Conclude(const Key& key, uint64_t serial, Result<std::shared_ptr<Connection>> connection,
                uint64_t number);
  // An address of the peer's does not carry anything any more, or does again.
  void AddressIs(const Key& key, uint64_t serial, const std::string& address, const Status& why);
  Use MakeUse(const Key& key);
  void EndUse(const Key& key, uint64_t serial);
  // Takes it out of the table, if it is still that one: who asks from now on gets another.
  std::shared_ptr<Connection> Forget(const Key& key, uint64_t serial);

  Context& context_;
  Peers& peers_;
  std::map<Key, Reading> reading_;
  std::map<uint64_t, Accepted> accepted_;
  std::function<void(uint64_t, const Status&)> answered_closed_;
  std::function<void(const Connection&, const Status&)> reading_closed_;
  uint64_t next_serial_ = 1;
};

}  // namespace onecopy::engine
