#include "daemon/rpc/peer_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <array>
#include <string_view>
#include <utility>

#include "daemon/rpc/grpc_status.h"
#include "daemon/rpc/limits.h"
#include "transport/core/reasons.h"

namespace onecopy::rpc {
namespace {

constexpr int kConnectMs = 3'000;
// A peer that has vanished without a word is found out by pings while a call waits for it.
constexpr int kPingEveryMs = 10'000;
constexpr int kPingTimeoutMs = 5'000;

grpc::ChannelArguments ArgumentsFor(const std::string& node, bool tls) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostMessageBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMostMetadataBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Nothing happens behind our back: no second attempt, no proxy, no configuration from the DNS.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // Whom the certificate must be for, whatever the address.
  if (tls) arguments.SetSslTargetNameOverride(node);
  return arguments;
}

// gRPC reports a failed TLS handshake like any other failure to connect; only its text tells.
bool IsAboutCertificates(const std::string& message) {
  constexpr std::array<std::string_view, 4> kWords = {"handshake", "certificate", "CERTIFICATE",
                                                      "Hostname Verification"};
  for (const std::string_view word : kWords) {
    if (message.find(word) != std::string::npos) return true;
  }
  return false;
}

std::string InSeconds(std::chrono::milliseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

PeerChannel::PeerChannel(std::string name, std::string address, Credentials credentials)
    : name_(std::move(name)), address_(std::move(address)), credentials_(std::move(credentials)) {}

const std::shared_ptr<PeerChannel::Stub>& PeerChannel::Connected() {
  if (stub_ == nullptr) {
    // With the scheme, so that nothing in the address can choose another.
    stub_ = v1::PeerService::NewStub(grpc::CreateCustomChannel(
        "dns:///" + address_, credentials_.channel, ArgumentsFor(name_, credentials_.tls)));
  }
  return stub_;
}

Status PeerChannel::Explain(const PeerMethod& method, const std::shared_ptr<Stub>& used,
                            const grpc::Status& status) {
  Status theirs = FromGrpc(status);
  if (!theirs.reason().empty()) return theirs;
  const std::string call = std::string("call ") + method.name + " of " + Who();
  const bool late = theirs.code() == Code::kDeadlineExceeded;
  const bool greeting = std::string_view(method.name) == "Hello";
  if (theirs.code() == Code::kUnavailable || (late && greeting)) {
    if (stub_ == used) stub_.reset();
  }
  if (late) {
    const std::string message =
        Who() + " has not answered " + method.name + " within " + InSeconds(method.timeout);
    // Not UNAVAILABLE: it may only be busy, and whoever greets it knows how often that may happen.
    return {Code::kDeadlineExceeded, greeting ? reasons::kPeerDown : reasons::kStalled, message};
  }
  switch (theirs.code()) {
    case Code::kUnavailable:
      if (credentials_.tls && IsAboutCertificates(theirs.message())) {
        return {Code::kUnauthenticated, reasons::kCertRejected,
                Who() + " could not prove that it is " + name_ + ": " + theirs.message(),
                "check [tls] on both nodes: one CA, and a certificate with DNS:" + name_ +
                    " among its subject alternative names there"};
      }
      return {Code::kUnavailable, reasons::kPeerDown,
              Who() + " does not answer: " + theirs.message(),
              credentials_.tls ? "see that onecopyd runs there and accepts this node's certificate"
                               : "see that onecopyd runs there and listens at this address"};
    case Code::kUnimplemented:
      return {Code::kUnavailable, reasons::kPeerIncompatible,
              Who() + " does not know the call " + method.name + ": " + theirs.message(),
              "run onecopyd of neighbouring versions on both nodes"};
    case Code::kCancelled:
      return {Code::kCancelled, reasons::kCancelled, call + " was given up"};
    default:
      return {theirs.code(), reasons::kInternal, call + " failed: " + theirs.message()};
  }
}

Status PeerChannel::Nonsense(const PeerMethod& method, const Status& why) const {
  return {Code::kUnavailable, reasons::kPeerIncompatible,
          Who() + " answered " + method.name + " with what makes no sense: " + why.message(),
          "run onecopyd of neighbouring versions on both nodes"};
}

}  // namespace onecopy::rpc
