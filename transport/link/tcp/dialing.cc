#include "transport/link/tcp/dialing.h"

#include <utility>

#include "transport/core/reasons.h"
#include "transport/link/tcp/greeting.h"

namespace onecopy::tcp {
namespace {

using Established = UniqueFunction<void(Result<std::shared_ptr<Connection>>)>;

// The lanes on their way; lives on one loop's thread.
struct Attempt {
  std::shared_ptr<TcpConnection> connection;
  std::vector<LaneSocket> sockets;
  uint32_t missing = 0;
  Status failure;
  Established done;
};

Status CheckWelcome(const Result<FrameHeader>& answer, uint32_t index) {
  if (!answer.ok()) return answer.status();
  if (answer->kind == FrameKind::kWelcome && answer->tag == index) return OkStatus();
  return {Code::kUnavailable, reasons::kLinkDown, "the peer did not welcome a tcp lane"};
}

}  // namespace

TcpDialing::TcpDialing(TcpLink& link, std::string peer)
    : link_(link),
      peer_(std::move(peer)),
      offer_(Encode(Offer{link.options_.lanes, link.options_.encryption.possible(),
                          link.options_.encryption.required})) {}

void TcpDialing::Establish(const std::string& host, const std::string& answer, Established done) {
  const size_t first = link_.NextThread();
  os::EventLoop& home = link_.LoopOf(first, 0);
  const Result<Answer> decoded = DecodeAnswer(answer);
  if (!decoded.ok() || decoded->lanes > link_.options_.lanes) {
    Status bad = decoded.ok() ? Status(Code::kInvalidArgument, reasons::kBadHandle,
                                       "the peer answered with more tcp lanes than were offered")
                              : decoded.status();
    return home.Post([done = std::move(done), bad]() mutable { done(bad); });
  }
  // The owner has an answer only where it can; what it must is not known here, and need not be.
  const Encryption& encryption = link_.options_.encryption;
  const Result<bool> agreed =
      AgreeOnEncryption(encryption, peer_, decoded->encrypted, decoded->encrypted);
  if (!agreed.ok()) {
    return home.Post([done = std::move(done), why = agreed.status()]() mutable { done(why); });
  }
  std::optional<Greeting::Secure> secure;
  if (*agreed) secure = {encryption, peer_};
  const os::HostPort where{decoded->host.empty() ? host : decoded->host, decoded->port};
  auto attempt = std::make_shared<Attempt>();
  auto connection = link_.NewConnection(peer_, decoded->lanes, *agreed, decoded->by_kernel, home);
  if (!connection.ok()) {
    return home.Post([done = std::move(done), why = connection.status()]() mutable { done(why); });
  }
  attempt->connection = std::move(*connection);
  attempt->missing = decoded->lanes + 1;
  attempt->sockets.resize(attempt->missing);
  attempt->done = std::move(done);
  home.Post([&link = link_, first, where, token = decoded->token, attempt, &home,
             secure = std::move(secure)] {
    for (uint32_t i = 0; i < attempt->sockets.size(); ++i) {
      const FrameHeader hello{FrameKind::kHello, i, token.high, token.low, 0};
      Greeting::Offer(home, where, hello, secure,
                      [&link, first, where, attempt, i](auto reply, LaneSocket socket) {
                        if (Status welcome = CheckWelcome(reply, i); !welcome.ok()) {
                          attempt->failure =
                              welcome.WithContext("connecting tcp lanes to " + where.ToString());
                        }
                        attempt->sockets[i] = std::move(socket);
                        if (--attempt->missing > 0) return;
                        if (!attempt->failure.ok()) {
                          attempt->connection->Close(attempt->failure);
                          return attempt->done(attempt->failure);
                        }
                        for (uint32_t lane = 0; lane < attempt->sockets.size(); ++lane) {
                          attempt->connection->AttachLane(lane, link.LoopOf(first, lane),
                                                          std::move(attempt->sockets[lane]), false);
                        }
                        attempt->done(std::shared_ptr<Connection>(attempt->connection));
                      });
    }
  });
}

}  // namespace onecopy::tcp
