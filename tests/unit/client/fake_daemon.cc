#include "tests/unit/client/fake_daemon.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "onecopy/reasons.h"
#include "proto/codec/status_codec.h"

namespace onecopy::testing {

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), status.message(),
          EncodeStatusDetails(status)};
}

FakeDaemon::FakeDaemon(std::string run_dir, Options options)
    : run_dir_(std::move(run_dir)), options_(std::move(options)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = run_dir_ + "/attach.sock";
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("run dir too long");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  listener_ = os::UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  stop_ = os::UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_.get(), 64) != 0) {
    throw std::runtime_error("listening at " + path);
  }
  attach_thread_ = std::thread([this] { ServeAttach(); });
  if (options_.attach_only) return;
  // gRPC takes the rest of "unix:" as part of a URI, in which these characters mean something.
  std::string target = "unix:";
  for (const char c : run_dir_ + "/api.sock") {
    target += c == '%' ? "%25" : c == '#' ? "%23" : c == '?' ? "%3F" : std::string(1, c);
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort(target, grpc::InsecureServerCredentials());
  builder.RegisterService(static_cast<v1::BufferService::Service*>(this));
  builder.RegisterService(static_cast<v1::NodeService::Service*>(this));
  builder.RegisterService(static_cast<v1::TransferService::Service*>(this));
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) throw std::runtime_error("serving at " + target);
}

FakeDaemon::~FakeDaemon() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  }
  const uint64_t one = 1;
  static_cast<void>(!::write(stop_.get(), &one, sizeof one));
  attach_thread_.join();
  ::unlink((run_dir_ + "/attach.sock").c_str());
}

void FakeDaemon::ServeAttach() {
  for (;;) {
    std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    std::vector<std::string> tokens;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [token, session] : sessions_) {
        polled.push_back({session.socket.get(), POLLIN, 0});
        tokens.push_back(token);
      }
    }
    ::poll(polled.data(), polled.size(), -1);
    if (polled[0].revents != 0) return;
    if (polled[1].revents != 0) {
      os::UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const std::lock_guard lock(mutex_);
      sessions_["token-" + std::to_string(next_token_++)].socket = std::move(socket);
      changed_.notify_all();
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (polled[i + 2].revents == 0) continue;
      std::array<char, 65536> packet{};
      iovec piece{packet.data(), packet.size()};
      alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      const ssize_t got = ::recvmsg(polled[i + 2].fd, &message, MSG_CMSG_CLOEXEC);
      v1::AttachRequest request;
      if (got <= 0 || !request.ParseFromArray(packet.data(), static_cast<int>(got))) {
        EndSession(tokens[i]);
        continue;
      }
      os::UniqueFd fd;
      if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr) {
        int raw = -1;
        std::memcpy(&raw, CMSG_DATA(header), sizeof raw);
        fd = os::UniqueFd(raw);
      }
      if (!Answer(tokens[i], request, std::move(fd))) EndSession(tokens[i]);
    }
  }
}

bool FakeDaemon::Answer(const std::string& token, const v1::AttachRequest& request,
                        os::UniqueFd fd) {
  v1::AttachReply reply;
  const std::lock_guard lock(mutex_);
  Session& session = sessions_[token];
  if (request.has_hello()) {
    last_client_ = request.hello().client();
    if (options_.attach_error.has_value()) {
      *reply.mutable_error() = ToProto(*options_.attach_error);
    } else {
      reply.mutable_welcome()->set_protocol(options_.protocol);
      reply.mutable_welcome()->set_token(token);
      reply.mutable_welcome()->set_node("east");
      reply.mutable_welcome()->set_version("9.9.9");
    }
  } else {
    session.deposits[next_deposit_] = std::move(fd);
    reply.mutable_passed()->set_fd_handle(next_deposit_++);
  }
  const std::string packet = reply.SerializeAsString();
  return ::send(session.socket.get(), packet.data(), packet.size(), MSG_NOSIGNAL) > 0;
}

void FakeDaemon::EndSession(const std::string& token) {
  const std::lock_guard lock(mutex_);
  std::erase_if(buffers_, [&](const auto& buffer) { return buffer->session == token; });
  sessions_.erase(token);
  changed_.notify_all();
}

grpc::Status FakeDaemon::Check(grpc::ServerContext* context, std::string* token) {
  const auto found = context->client_metadata().find("onecopy-session");
  std::string given;
  if (found != context->client_metadata().end()) {
    given.assign(found->second.data(), found->second.size());
  }
  if (token != nullptr) *token = given;
  const std::lock_guard lock(mutex_);
  if (fail_calls_.has_value()) return ToGrpc(*fail_calls_);
  if (sessions_.contains(given)) return grpc::Status::OK;
  return ToGrpc(Status(Code::kUnauthenticated, reasons::kNoSession, "no session"));
}

void FakeDaemon::AddBuffer(const std::string& node, const std::string& name, uint64_t bytes,
                           bool sink) {
  auto memory = std::make_unique<Memory>();
  memory->sink = sink;
  if (!sink) memory->own.resize(bytes);
  memory->info.set_node(node);
  memory->info.set_bytes(bytes);
  const std::lock_guard lock(mutex_);
  Add(std::move(memory), name);
}

std::string FakeDaemon::Bytes(const std::string& node, const std::string& name) {
  const std::lock_guard lock(mutex_);
  Memory* memory = Find(node, name);
  if (memory == nullptr) throw std::runtime_error("no buffer " + name);
  return {reinterpret_cast<const char*>(memory->data()), memory->info.bytes()};
}

void FakeDaemon::SetBytes(const std::string& node, const std::string& name,
                          const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  Memory* memory = Find(node, name);
  if (memory == nullptr) throw std::runtime_error("no buffer " + name);
  std::memcpy(memory->data(), bytes.data(), std::min<size_t>(bytes.size(), memory->info.bytes()));
}

void FakeDaemon::SetFate(size_t number, Fate fate) {
  const std::lock_guard lock(mutex_);
  fates_[number] = std::move(fate);
}

void FakeDaemon::Release() {
  const std::lock_guard lock(mutex_);
  for (const auto& move : moves_) {
    if (!move->fate.hold || move->transfer.state() != v1::RUNNING) continue;
    move->fate.hold = false;
    Run(*move);
  }
}

void FakeDaemon::FailCalls(const Status& status) {
  const std::lock_guard lock(mutex_);
  fail_calls_ = status;
}

void FakeDaemon::AwaitStarted(size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return moves_.size() >= count; });
}

void FakeDaemon::AwaitCancelRequested() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return cancels_ > 0; });
}

void FakeDaemon::AwaitWatched() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return watches_ > 0; });
}

void FakeDaemon::AwaitSessions(size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return sessions_.size() == count; });
}

std::vector<v1::CreateTransferRequest> FakeDaemon::requests() {
  const std::lock_guard lock(mutex_);
  std::vector<v1::CreateTransferRequest> all;
  for (const auto& move : moves_) all.push_back(move->request);
  return all;
}

std::vector<v1::Transfer> FakeDaemon::transfers() {
  const std::lock_guard lock(mutex_);
  std::vector<v1::Transfer> all;
  for (const auto& move : moves_) all.push_back(move->transfer);
  return all;
}

size_t FakeDaemon::buffer_count() {
  const std::lock_guard lock(mutex_);
  return buffers_.size();
}

std::string FakeDaemon::last_level() {
  const std::lock_guard lock(mutex_);
  return level_;
}

std::string FakeDaemon::last_client() {
  const std::lock_guard lock(mutex_);
  return last_client_;
}

v1::RegisterBufferRequest FakeDaemon::last_registration() {
  const std::lock_guard lock(mutex_);
  return last_registration_;
}

}  // namespace onecopy::testing
