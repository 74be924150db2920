#include "client/cli/peer_check.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/tls/handshake.h"

namespace onecopy::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kStart = "start onecopyd there, and let this port through its firewall";

// DEADLINE_EXCEEDED after `until`.
Status Await(int fd, short events, Clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    pollfd waits{fd, events, 0};
    const int ready = ::poll(&waits, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready > 0) return OkStatus();
    if (ready == 0) return {Code::kDeadlineExceeded, reasons::kPeerDown, "no answer in time"};
    if (errno != EINTR) return os::ErrnoStatus(errno, "poll");
  }
}

Status Down(const os::HostPort& where, const std::string& why, const std::string& remedy) {
  return {Code::kUnavailable, reasons::kPeerDown, where.ToString() + ": " + why, remedy};
}

// Both ends show their certificates, and accept the other's.
Status Prove(int fd, const os::HostPort& where, const std::string& node,
             const tls::Identity& identity, Clock::time_point until) {
  using Next = tls::Handshake::Next;
  ONECOPY_ASSIGN_OR_RETURN(
      const auto handshake,
      tls::Handshake::Begin(identity, tls::Side::kClient, fd, tls::Handshake::Protocol::kGrpc));
  for (bool shaken = false;;) {
    const auto next = shaken ? handshake->AwaitFirstByte() : handshake->Step();
    if (!next.ok() && next.status().code() == Code::kUnauthenticated) return next.status();
    if (!next.ok()) {
      return Down(where, "what listens there does not speak TLS: " + next.status().message(),
                  "set [tls] in the configuration of that node, too");
    }
    if (*next == Next::kDone && shaken) return OkStatus();
    if (*next == Next::kDone) {
      shaken = true;
      ONECOPY_RETURN_IF_ERROR(identity.Verify(handshake->presented(), node, tls::Side::kServer));
      continue;
    }
    if (!Await(fd, *next == Next::kRead ? POLLIN : POLLOUT, until).ok()) {
      return Down(where, "what listens there does not answer",
                  "see whether it is onecopyd, and what its log says");
    }
  }
}

}  // namespace

Status CheckPeer(const os::HostPort& where, const std::string& node,
                 const std::shared_ptr<const tls::Identity>& identity,
                 std::chrono::milliseconds limit) {
  const Clock::time_point until = Clock::now() + limit;
  Result<os::UniqueFd> fd = os::ConnectTcp(where);
  if (!fd.ok()) return Down(where, fd.status().message(), kStart);
  if (!Await(fd->get(), POLLOUT, until).ok()) return Down(where, "no answer", kStart);
  if (const Status error = os::ConnectError(fd->get()); !error.ok()) {
    return Down(where, error.message(), kStart);
  }
  return identity == nullptr ? OkStatus() : Prove(fd->get(), where, node, *identity, until);
}

}  // namespace onecopy::cli
