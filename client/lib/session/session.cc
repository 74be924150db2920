#include "client/lib/session/session.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "client/lib/calls/fork_guard.h"
#include "onecopy/reasons.h"
#include "proto/codec/protocol.h"
#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::client {
namespace {

// Which gRPC may need as it begins; without them it ends the process.
constexpr int kDescriptors = 8;

Status CheckDescriptors(const RunDir& run_dir) {
  std::vector<os::UniqueFd> taken;
  for (int i = 0; i < kDescriptors; ++i) {
    taken.emplace_back(::eventfd(0, EFD_CLOEXEC));
    if (taken.back()) continue;
    return os::ErrnoStatus(errno, "a connection to the onecopyd in " + run_dir.path +
                                      " takes up to " + std::to_string(kDescriptors) +
                                      " descriptors more, and this process has room for " +
                                      std::to_string(i));
  }
  return OkStatus();
}

// A daemon takes pings of a client every five seconds, and no more.
constexpr std::chrono::milliseconds kLeastBetweenPings{6000};
constexpr std::chrono::milliseconds kLeastForPing{2000};

// How far apart the ends of a daemon's two sockets may be, when it dies.
constexpr std::chrono::milliseconds kBothEnd{250};

std::chrono::milliseconds PingEvery(std::chrono::milliseconds timeout) {
  return std::max(kLeastBetweenPings, timeout / 2);
}
std::chrono::milliseconds PingTimeout(std::chrono::milliseconds timeout) {
  return std::max(kLeastForPing, timeout / 2);
}

}  // namespace

std::string UnixTarget(const std::string& path) {
  std::string target = "unix:";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '/' || c == '-' || c == '_' || c == '.' || c == '~') {
      target += c;
    } else {
      char escaped[4];
      std::snprintf(escaped, sizeof escaped, "%%%02X", byte);
      target += escaped;
    }
  }
  return target;
}

Result<SessionRef> Session::Open(const RunDir& run_dir, const ConnectOptions& options,
                                 uint64_t number) {
  ONECOPY_RETURN_IF_ERROR(ForkGuard::CheckProcess());
  ONECOPY_ASSIGN_OR_RETURN(AttachSocket attach,
                           AttachSocket::Connect(run_dir, options.program, options.timeout));
  ONECOPY_RETURN_IF_ERROR(CheckDescriptors(run_dir));
  ForkGuard::NoteUse();
  return SessionRef(new Session(std::move(attach), run_dir.path, options, number));
}

Session::Session(AttachSocket attach, std::string run_dir, const ConnectOptions& options,
                 uint64_t number)
    : attach_(std::move(attach)),
      ring_(attach_, silence_, options.use_ring),
      own_memory_(attach_, options.copy_threads),
      run_dir_(std::move(run_dir)),
      timeout_(options.timeout),
      keep_arrivals_(options.keep_arrivals),
      number_(number),
      silence_(
          PingEvery(timeout_) + PingTimeout(timeout_),
          [this](grpc::ClientContext& context, std::function<void(const grpc::Status&)> answered) {
            struct Call {
              grpc::health::v1::HealthCheckRequest request;
              grpc::health::v1::HealthCheckResponse reply;
            };
            const auto call = std::make_shared<Call>();
            stub<grpc::health::v1::Health::Stub>().async()->Check(
                &context, &call->request, &call->reply,
                [call, answered](const grpc::Status& status) { answered(status); });
          }) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // the daemon is trusted, and a page of receipts is long
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A connection that failed for want of a descriptor may be made as soon as there is one.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A daemon that is stopped keeps its sockets: calls that may take long end by this.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(PingEvery(timeout_).count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(PingTimeout(timeout_).count()));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A channel of its own: closing this one must not wait for, or disturb, another client's.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel(UnixTarget(run_dir_ + "/" + kApiSocket),
                                       grpc::InsecureChannelCredentials(), arguments);
  stubs_ = {v1::ArrivalService::NewStub(channel_), v1::BufferService::NewStub(channel_),
            v1::NodeService::NewStub(channel_), grpc::health::v1::Health::NewStub(channel_),
            v1::TransferService::NewStub(channel_)};
}

bool Session::EndedBy(const Status& failure) const {
  if (failure.reason() == reasons::kDraining) return attach_.keeps_buffers() && Ended();
  // A daemon that was started since does not know the session.
  if (failure.reason() != reasons::kDaemonUnreachable && failure.reason() != reasons::kNoSession) {
    return false;
  }
  // Many calls may fail one after another.
  const bool ended = attach_.EndsWithin(waited_for_end_ ? std::chrono::milliseconds(0) : kBothEnd);
  waited_for_end_ = true;
  return ended;
}

Status Session::EndBuffer(const std::string& name, bool force) {
  v1::DeleteBufferRequest request;
  request.set_name(name);
  request.set_force(force);
  const TeardownLimit limit(hopeless_);
  Status done = Call(&v1::BufferService::Stub::DeleteBuffer, request, Patience::kQuick).status();
  if (done.code() == Code::kDeadlineExceeded) {
    const MutexLock lock(ending_);
    left_.push_back(std::move(request));
    hopeless_ = true;
  }
  return done;
}

void Session::EndBuffersLeft() {
  std::vector<v1::DeleteBufferRequest> left;
  {
    const MutexLock lock(ending_);
    left.swap(left_);
    hopeless_ = false;
  }
  for (const v1::DeleteBufferRequest& each : left) {
    static_cast<void>(EndBuffer(each.name(), each.force()));
  }
}

void Session::Prepare(grpc::ClientContext& context, Patience patience) const {
  context.AddMetadata(kSessionMetadata, attach_.token());
  std::optional<std::chrono::milliseconds> limit = CallLimit::Left();
  if (patience == Patience::kQuick) limit = std::min(limit.value_or(timeout_), timeout_);
  if (limit) context.set_deadline(std::chrono::system_clock::now() + *limit);
}

}  // namespace onecopy::client
