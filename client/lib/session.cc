#include "client/lib/session.h"

#include <sys/eventfd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "client/lib/fork_guard.h"
#include "onecopy/reasons.h"
#include "proto/codec/protocol.h"
#include "transport/os/error.h"
#include "transport/os/unique_fd.h"

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

// How far apart the ends of a daemon's two sockets may be, when it dies.
constexpr std::chrono::milliseconds kBothEnd{250};

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
      small_(attach_, options.use_ring),
      own_memory_(attach_, options.copy_threads),
      run_dir_(std::move(run_dir)),
      timeout_(options.timeout),
      keep_arrivals_(options.keep_arrivals),
      number_(number) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // the daemon is trusted, and a page of receipts is long
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A connection that failed for want of a descriptor may be made as soon as there is one.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A channel of its own: closing this one must not wait for, or disturb, another client's.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel(UnixTarget(run_dir_ + "/" + kApiSocket),
                                       grpc::InsecureChannelCredentials(), arguments);
  stubs_ = {v1::ArrivalService::NewStub(channel_), v1::BufferService::NewStub(channel_),
            v1::NodeService::NewStub(channel_), grpc::health::v1::Health::NewStub(channel_),
            v1::TransferService::NewStub(channel_)};
}

bool Session::EndedBy(const Status& failure) const {
  // A daemon that was started since does not know the session.
  if (failure.reason() != reasons::kDaemonUnreachable && failure.reason() != reasons::kNoSession) {
    return false;
  }
  // Many calls may fail one after another.
  const bool ended = attach_.EndsWithin(waited_for_end_ ? std::chrono::milliseconds(0) : kBothEnd);
  waited_for_end_ = true;
  return ended;
}

void Session::Prepare(grpc::ClientContext& context, Patience patience) const {
  context.AddMetadata(kSessionMetadata, attach_.token());
  if (patience == Patience::kQuick) {
    context.set_deadline(std::chrono::system_clock::now() + timeout_);
  }
}

}  // namespace onecopy::client
