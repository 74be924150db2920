#include "client/lib/connection.h"

#include <cctype>
#include <cstdio>
#include <utility>

#include "proto/codec/protocol.h"

namespace onecopy::client {

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

Result<std::shared_ptr<Connection>> Connection::Open(const ConnectOptions& options) {
  const RunDir run_dir = FindRunDir(RunDirHints::FromEnvironment(options.run_dir));
  ONECOPY_ASSIGN_OR_RETURN(AttachSocket attach,
                           AttachSocket::Connect(run_dir, options.program, options.timeout));
  return std::shared_ptr<Connection>(new Connection(std::move(attach), run_dir.path, options));
}

Connection::Connection(AttachSocket attach, std::string run_dir, const ConnectOptions& options)
    : attach_(std::move(attach)),
      small_(attach_, options.use_ring),
      run_dir_(std::move(run_dir)),
      timeout_(options.timeout),
      cuda_library_(options.cuda_library) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // the daemon is trusted, and a page of receipts is long
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A channel of its own: closing this one must not wait for, or disturb, another client's.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel(UnixTarget(run_dir_ + "/" + kApiSocket),
                                       grpc::InsecureChannelCredentials(), arguments);
  buffers_ = v1::BufferService::NewStub(channel_);
  nodes_ = v1::NodeService::NewStub(channel_);
  health_ = grpc::health::v1::Health::NewStub(channel_);
  transfers_ = v1::TransferService::NewStub(channel_);
}

void Connection::Prepare(grpc::ClientContext& context, Patience patience) const {
  context.AddMetadata(kSessionMetadata, attach_.token());
  if (patience == Patience::kQuick) {
    context.set_deadline(std::chrono::system_clock::now() + timeout_);
  }
}

}  // namespace onecopy::client
