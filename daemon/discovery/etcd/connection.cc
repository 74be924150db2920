#include "daemon/discovery/etcd/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::discovery {
namespace {

constexpr int kEtcdConnectMs = 2'000;
// etcd ends connections that ping more often than each 5 s.
constexpr int kEtcdPingEveryMs = 10'000;
constexpr int kEtcdPingTimeoutMs = 5'000;
// A key has at most 1.5 MiB unless etcd is told otherwise.
constexpr int kMaxAnswerBytes = 16 << 20;
constexpr std::streamsize kMaxFileBytes = 1 << 20;

grpc::ChannelArguments EtcdArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kEtcdConnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kEtcdConnectMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kEtcdPingEveryMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kEtcdPingTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return arguments;
}

Result<std::string> ReadSmallFile(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  std::string piece(4096, '\0');
  while (stream && static_cast<std::streamsize>(text.size()) <= kMaxFileBytes) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece.data(), static_cast<size_t>(stream.gcount()));
  }
  if (!stream.eof() || text.empty()) {
    return Status(Code::kFailedPrecondition, reasons::kIo,
                  "the file " + file + " cannot be read, or is empty",
                  "check [discovery] and the file's rights");
  }
  return text;
}

Result<std::shared_ptr<grpc::ChannelCredentials>> CredentialsFor(const EtcdServer& server,
                                                                 const EtcdSecrets& secrets) {
  if (!server.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  ONECOPY_ASSIGN_OR_RETURN(options.pem_root_certs, ReadSmallFile(secrets.ca));
  if (!secrets.certificate.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(options.pem_cert_chain, ReadSmallFile(secrets.certificate));
    ONECOPY_ASSIGN_OR_RETURN(options.pem_private_key, ReadSmallFile(secrets.key));
  }
  return grpc::SslCredentials(options);
}

}  // namespace

std::string EtcdServer::ToString() const {
  return (tls ? "https://" : "http://") + where.ToString();
}

void CallStop::Stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

void CallStop::Resume(WallClock::time_point until) {
  const MutexLock lock(mutex_);
  stopped_ = false;
  until_ = until;
}

CallStop::WallClock::time_point CallStop::until() const {
  const MutexLock lock(mutex_);
  return until_;
}

CallStop::Running::Running(CallStop& stop, grpc::ClientContext& context)
    : stop_(stop), context_(context) {
  const MutexLock lock(stop_.mutex_);
  stop_.running_.insert(&context_);
  if (stop_.stopped_) context_.TryCancel();
}

CallStop::Running::~Running() {
  const MutexLock lock(stop_.mutex_);
  stop_.running_.erase(&context_);
}

struct Connection::Watching {
  enum Tag : uintptr_t { kStarted = 1, kWritten, kRead, kFinished };

  Watching(CallStop& stop) : running(stop, context) {}

  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  CallStop::Running running;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>>
      stream;
  etcdserverpb::WatchRequest request;
  etcdserverpb::WatchResponse response;
};

Result<std::unique_ptr<Connection>> Connection::Open(const EtcdServer& server,
                                                     const EtcdSecrets& secrets,
                                                     std::chrono::milliseconds call_limit,
                                                     CallStop& stop) {
  std::unique_ptr<Connection> made(new Connection(server, call_limit, stop));
  ONECOPY_ASSIGN_OR_RETURN(const auto credentials, CredentialsFor(server, secrets));
  made->channel_ = grpc::CreateCustomChannel(server.where.ToString(), credentials, EtcdArguments());
  if (!secrets.user.empty()) ONECOPY_RETURN_IF_ERROR(made->Authenticate(secrets));
  return made;
}

Connection::Connection(EtcdServer server, std::chrono::milliseconds call_limit, CallStop& stop)
    : server_(std::move(server)), call_limit_(call_limit), stop_(stop) {}

Connection::~Connection() { EndWatch(); }

void Connection::Prepare(grpc::ClientContext& context) const {
  context.set_deadline(std::min<CallStop::WallClock::time_point>(
      CallStop::WallClock::now() + call_limit_, stop_.until()));
  if (!token_.empty()) context.AddMetadata("token", token_);
}

Status Connection::ToStatus(const grpc::Status& status, const char* what) const {
  if (status.ok()) return OkStatus();
  const std::string message = server_.ToString() + ": " + what + ": " + status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::INVALID_ARGUMENT:
      return {Code::kPermissionDenied, reasons::kAccessDenied, message,
              "check etcd_user, its password and its role: it needs to read and write below "
              "etcd_prefix"};
    case grpc::StatusCode::FAILED_PRECONDITION:
      return {Code::kFailedPrecondition, reasons::kAccessDenied, message,
              "check etcd_user: whether etcd's authentication is on"};
    case grpc::StatusCode::OUT_OF_RANGE:
      return {Code::kOutOfRange, reasons::kIo, message};
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return {Code::kResourceExhausted, reasons::kIo, message};
    default:
      return {Code::kUnavailable, reasons::kIo, message,
              "check that etcd runs there, has a leader, and that its certificate is for this "
              "address and signed by etcd_ca"};
  }
}

Status Connection::Authenticate(const EtcdSecrets& secrets) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(secrets.password_file));
  etcdserverpb::AuthenticateRequest request;
  request.set_name(secrets.user);
  std::istringstream lines(text);
  std::string password;
  std::getline(lines, password);
  if (password.ends_with('\r')) password.pop_back();
  request.set_password(password);
  etcdserverpb::AuthenticateResponse response;
  grpc::ClientContext context;
  Prepare(context);
  const CallStop::Running running(stop_, context);
  ONECOPY_RETURN_IF_ERROR(
      ToStatus(etcdserverpb::Auth::NewStub(channel_)->Authenticate(&context, request, &response),
               "authentication"));
  token_ = response.token();
  return OkStatus();
}

Result<etcdserverpb::RangeResponse> Connection::Range(const etcdserverpb::RangeRequest& request) {
  etcdserverpb::RangeResponse response;
  grpc::ClientContext context;
  Prepare(context);
  const CallStop::Running running(stop_, context);
  ONECOPY_RETURN_IF_ERROR(ToStatus(
      etcdserverpb::KV::NewStub(channel_)->Range(&context, request, &response), "reading"));
  return response;
}

Result<etcdserverpb::TxnResponse> Connection::Transact(const etcdserverpb::TxnRequest& request) {
  etcdserverpb::TxnResponse response;
  grpc::ClientContext context;
  Prepare(context);
  const CallStop::Running running(stop_, context);
  ONECOPY_RETURN_IF_ERROR(
      ToStatus(etcdserverpb::KV::NewStub(channel_)->Txn(&context, request, &response), "writing"));
  return response;
}

Result<int64_t> Connection::Grant(std::chrono::seconds lasts) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(lasts.count());
  etcdserverpb::LeaseGrantResponse response;
  grpc::ClientContext context;
  Prepare(context);
  const CallStop::Running running(stop_, context);
  ONECOPY_RETURN_IF_ERROR(ToStatus(
      etcdserverpb::Lease::NewStub(channel_)->LeaseGrant(&context, request, &response), "a lease"));
  return response.id();
}

Result<bool> Connection::KeepAlive(int64_t lease) {
  grpc::ClientContext context;
  Prepare(context);
  const CallStop::Running running(stop_, context);
  const auto stub = etcdserverpb::Lease::NewStub(channel_);
  const auto stream = stub->LeaseKeepAlive(&context);
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse response;
  const bool answered = stream->Write(request) && stream->Read(&response);
  if (answered) context.TryCancel();  // one answer is all that is wanted of the stream
  const grpc::Status ended = stream->Finish();
  if (answered) return response.ttl() > 0;
  ONECOPY_RETURN_IF_ERROR(ToStatus(ended, "keeping a lease"));
  return Status(Code::kUnavailable, reasons::kIo,
                server_.ToString() + ": keeping a lease: no answer");
}

Status Connection::Revoke(int64_t lease) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse response;
  grpc::ClientContext context;
  Prepare(context);
  const CallStop::Running running(stop_, context);
  return ToStatus(etcdserverpb::Lease::NewStub(channel_)->LeaseRevoke(&context, request, &response),
                  "ending a lease");
}

void Connection::Watch(const std::string& key, const std::string& end, int64_t revision) {
  EndWatch();
  watching_ = std::make_unique<Watching>(stop_);
  if (!token_.empty()) watching_->context.AddMetadata("token", token_);
  // A server that is cut off from the others ends the watch, rather than to be silent.
  watching_->context.AddMetadata("hasleader", "true");
  etcdserverpb::WatchCreateRequest& create = *watching_->request.mutable_create_request();
  create.set_key(key);
  create.set_range_end(end);
  create.set_start_revision(revision);
  create.set_fragment(true);
  watching_->stream = etcdserverpb::Watch::NewStub(channel_)->PrepareAsyncWatch(&watching_->context,
                                                                                &watching_->queue);
  watching_->stream->StartCall(reinterpret_cast<void*>(Watching::kStarted));
}

Result<std::optional<etcdserverpb::WatchResponse>> Connection::NextChange(Clock::time_point until) {
  Watching& watching = *watching_;
  const auto left = std::clamp<Clock::duration>(until - Clock::now(), {}, std::chrono::hours(1));
  const auto deadline = std::chrono::system_clock::now() + left;
  while (true) {
    void* tag = nullptr;
    bool good = false;
    const auto next = watching.queue.AsyncNext(&tag, &good, deadline);
    if (next == grpc::CompletionQueue::TIMEOUT) return std::optional<etcdserverpb::WatchResponse>();
    const auto what = static_cast<Watching::Tag>(reinterpret_cast<uintptr_t>(tag));
    if (next == grpc::CompletionQueue::SHUTDOWN || !good) break;
    if (what == Watching::kStarted) {
      watching.stream->Write(watching.request, reinterpret_cast<void*>(Watching::kWritten));
      continue;
    }
    etcdserverpb::WatchResponse response;
    if (what == Watching::kRead) response.Swap(&watching.response);
    watching.stream->Read(&watching.response, reinterpret_cast<void*>(Watching::kRead));
    if (what == Watching::kRead) return std::optional(std::move(response));
  }
  grpc::Status why(grpc::StatusCode::UNAVAILABLE, "the watch has ended");
  watching.stream->Finish(&why, reinterpret_cast<void*>(Watching::kFinished));
  watching.context.TryCancel();
  void* tag = nullptr;
  bool good = false;
  while (watching.queue.Next(&tag, &good) &&
         reinterpret_cast<uintptr_t>(tag) != Watching::kFinished) {
  }
  EndWatch();
  if (why.ok()) why = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the watch has ended");
  return ToStatus(why, "watching");
}

void Connection::EndWatch() {
  if (watching_ == nullptr) return;
  watching_->context.TryCancel();
  watching_->queue.Shutdown();
  void* tag = nullptr;
  bool good = false;
  while (watching_->queue.Next(&tag, &good)) {
  }
  watching_.reset();
}

}  // namespace onecopy::discovery
