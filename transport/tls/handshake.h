// The beginning of an encrypted lane: both ends prove who they are and agree on keys, by OpenSSL
// (TLS 1.3). Records are then protected by the kernel or by Sealer and Opener, which is why this
// hands out the keys.
#pragma once

#include <memory>

#include "transport/tls/identity.h"
#include "transport/tls/keys.h"

namespace onecopy::tls {

struct SessionKeys {
  DirectionKeys sending;
  DirectionKeys receiving;
};

// One thread at a time; nothing waits. OpenSSL writes to the socket as to any file: the process has
// to ignore SIGPIPE, as daemons do.
class Handshake {
 public:
  // What both ends speak afterwards: a certificate cannot lead to another service of a node. kGrpc
  // is for clients alone, since gRPC has servers of its own.
  enum class Protocol { kLane, kGrpc };

  // On a connected, non-blocking socket, which must stay open. `side` is this end's: the end that
  // connects is the client.
  static Result<std::unique_ptr<Handshake>> Begin(const Identity& identity, Side side, int fd,
                                                  Protocol protocol = Protocol::kLane);
  ~Handshake();

  // What has to happen before the next step: the socket can be read, or written, or nothing more.
  enum class Next { kRead, kWrite, kDone };
  // UNAUTHENTICATED (CERT_REJECTED) where one end does not accept the other's certificate,
  // UNAVAILABLE (LINK_DOWN) where the socket fails or what comes is not a handshake.
  Result<Next> Step();

  // After kDone, for a client of gRPC, whose server speaks first: kDone once it has, and so has
  // accepted this end's certificate. Fails as Step.
  Result<Next> AwaitFirstByte();

  struct State;

  // After kDone: what the other end presented. It is signed by an authority of `identity`; for
  // which node it is and whether it counts is the caller's to ask (Identity::Verify).
  Chain presented() const;
  // After kDone: no byte that came after the handshake has been read yet.
  Result<SessionKeys> keys() const;

 private:
  explicit Handshake(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace onecopy::tls
