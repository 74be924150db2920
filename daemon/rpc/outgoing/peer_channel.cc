#include "daemon/rpc/outgoing/peer_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "daemon/rpc/grpc/grpc_status.h"
#include "daemon/rpc/grpc/limits.h"
#include "onecopy/reasons.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::rpc {
namespace {

constexpr int kConnectMs = 3'000;
// What is sent to a wire that loses everything is sent again after 1, 3 and 7 s: a call that comes
// within this time is answered in time by an attempt from before.
constexpr std::chrono::seconds kYoung{1};
// A peer that has vanished without a word is found out by pings while a call waits for it.
constexpr int kPingEveryMs = 10'000;
constexpr int kPingTimeoutMs = 5'000;

grpc::ChannelArguments ArgumentsFor(const std::string& node, bool tls) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
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

std::string InSeconds(std::chrono::milliseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

PeerChannel::PeerChannel(std::string name, std::string address, Credentials credentials,
                         Executor& engine, PlainDialer& dialer)
    : name_(std::move(name)),
      address_(std::move(address)),
      credentials_(std::move(credentials)),
      engine_(engine),
      dialer_(dialer) {
  home_->engine = &engine_;
}

void PeerChannel::Connect(UniqueFunction<void(Result<Line>)> use) {
  if (credentials_.tls) return use(Secured());
  if (line_.stub != nullptr) return use(line_);
  const os::Clock::time_point now = os::Clock::now();
  if (!dialling_.empty() && now - dialling_.rbegin()->second.begun < kYoung) {
    dialling_.rbegin()->second.waiting.push_back(std::move(use));
    return;
  }
  const uint64_t attempt = ++attempts_;
  Attempt& begun = dialling_[attempt];
  begun.begun = now;
  begun.waiting.push_back(std::move(use));
  dialer_.Dial(address_, [home = home_, weak = weak_from_this(), attempt](Result<os::UniqueFd> fd) {
    const MutexLock lock(home->mutex);
    if (home->engine == nullptr) return;
    home->engine->Post([weak, attempt, fd = std::move(fd)]() mutable {
      if (const auto self = weak.lock()) self->Dialled(attempt, std::move(fd));
    });
  });
}

PeerChannel::Line PeerChannel::Secured() {
  if ((line_.proof != nullptr && !line_.proof->Holds()) || ConnectsInVain()) line_ = {};
  if (line_.stub != nullptr) return line_;
  if (credentials_.trust) line_.proof = std::make_shared<ServerProof>(credentials_.trust, name_);
  line_.channel = grpc::CreateCustomChannel(Target(), credentials_.channel(line_.proof),
                                            ArgumentsFor(name_, credentials_.tls));
  line_.stub = v1::PeerService::NewStub(line_.channel);
  line_begun_ = os::Clock::now();
  return line_;
}

// With the scheme, so that nothing in the address can choose another. Of several addresses gRPC
// asks a silent one for as long as a call may take: each channel begins with another.
std::string PeerChannel::Target() {
  auto addresses = os::ParseHostPorts(address_);
  if (!addresses.ok() || addresses->size() == 1) return "dns:///" + address_;
  const auto first = static_cast<std::ptrdiff_t>(secured_++ % addresses->size());
  std::rotate(addresses->begin(), addresses->begin() + first, addresses->end());
  const bool six = addresses->front().host.find(':') != std::string::npos;
  return (six ? "ipv6:" : "ipv4:") + os::ToString(*addresses);
}

bool PeerChannel::ConnectsInVain() const {
  if (line_.channel == nullptr || os::Clock::now() - line_begun_ < kYoung) return false;
  const grpc_connectivity_state state = line_.channel->GetState(false);
  return state == GRPC_CHANNEL_CONNECTING || state == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

void PeerChannel::Dialled(uint64_t attempt, Result<os::UniqueFd> fd) {
  auto node = dialling_.extract(attempt);
  if (node.empty()) return;  // another was faster
  if (!fd.ok()) return Answer(std::move(node.mapped().waiting), ExplainDial(fd.status()));
  // gRPC knows such a connection by a number only.
  const Result<os::HostPort> far = os::PeerAddress(fd->get());
  if (far.ok()) {
    const bool six = far->host.find(':') != std::string::npos;
    line_.peer = (six ? "ipv6:" : "ipv4:") + far->ToString();
  }
  line_.channel =
      grpc::CreateCustomInsecureChannelFromFd(address_, fd->Release(), ArgumentsFor(name_, false));
  line_.stub = v1::PeerService::NewStub(line_.channel);
  auto others = std::exchange(dialling_, {});
  const Line line = line_;
  Answer(std::move(node.mapped().waiting), line);
  for (auto& [number, other] : others) Answer(std::move(other.waiting), line);
}

void PeerChannel::Answer(Users users, const Result<Line>& line) {
  for (auto& use : users) use(line);
}

Status PeerChannel::ExplainDial(const Status& status) const {
  if (status.code() == Code::kPermissionDenied || status.code() == Code::kDeadlineExceeded) {
    return status.WithContext(Who());
  }
  return {Code::kUnavailable, reasons::kPeerDown, Who() + " does not answer: " + status.message(),
          "check that onecopyd runs there and listens on this address"};
}

void PeerChannel::GiveUp() {
  {
    const MutexLock lock(home_->mutex);
    home_->engine = nullptr;
  }
  for (auto& [number, attempt] : std::exchange(dialling_, {})) {
    engine_.Post([users = std::move(attempt.waiting)]() mutable {
      Answer(std::move(users), Status(Code::kCancelled, reasons::kCancelled, "given up"));
    });
  }
}

Status PeerChannel::Explain(const PeerMethod& method, const Line& used,
                            const grpc::Status& status) {
  Status theirs = FromGrpc(status);
  if (!theirs.reason().empty()) return theirs;
  const std::string call = std::string("call ") + method.name + " of " + Who();
  const bool late = theirs.code() == Code::kDeadlineExceeded;
  const bool greeting = std::string_view(method.name) == "Hello";
  if (theirs.code() == Code::kUnavailable || (late && greeting)) {
    if (line_.stub == used.stub) line_ = {};
  }
  if (late) {
    const std::string message =
        Who() + " has not answered " + method.name + " within " + InSeconds(method.timeout);
    // Not UNAVAILABLE: it may only be busy, and whoever greets it knows how often that may happen.
    return {Code::kDeadlineExceeded, greeting ? reasons::kPeerDown : reasons::kStalled, message};
  }
  switch (theirs.code()) {
    case Code::kUnavailable:
      if (used.proof != nullptr && !used.proof->refusal().ok()) {
        const Status why = used.proof->refusal();
        return {why.code(), why.reason(), Who() + ": " + why.message(), why.remedy()};
      }
      if (credentials_.tls && IsAboutCertificates(theirs.message())) {
        return {Code::kUnauthenticated, reasons::kCertRejected,
                Who() + " could not prove that it is " + name_ + ": " + theirs.message(),
                "check [tls] on both nodes: one CA, and a certificate with DNS:" + name_ +
                    " among its subject alternative names on that node"};
      }
      return {
          Code::kUnavailable, reasons::kPeerDown, Who() + " does not answer: " + theirs.message(),
          credentials_.tls ? "check that onecopyd runs there and accepts this node's certificate"
                           : "check that onecopyd runs there and listens on this address"};
    case Code::kUnimplemented:
      return {Code::kUnavailable, reasons::kPeerIncompatible,
              Who() + " does not know the call " + method.name + ": " + theirs.message(),
              "run neighbouring versions of onecopyd on both nodes"};
    case Code::kCancelled:
      // A peer that cancels on purpose says why. A server that ends drops its calls so.
      return {Code::kCancelled, reasons::kPeerDown, call + " was dropped",
              "try again when the node answers: onecopy node ls"};
    default:
      return {theirs.code(), reasons::kInternal, call + " failed: " + theirs.message()};
  }
}

Status PeerChannel::BadReply(const PeerMethod& method, const Status& why) const {
  return {Code::kUnavailable, reasons::kPeerIncompatible,
          Who() + " answered " + method.name + " with a malformed message: " + why.message(),
          "run neighbouring versions of onecopyd on both nodes"};
}

}  // namespace onecopy::rpc
