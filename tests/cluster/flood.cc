#include "tests/cluster/flood.h"

#include <grpcpp/create_channel_posix.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace onecopy::testing {
namespace {

// Of a Unix socket, by a thread that is another user for as long.
int ConnectAs(uid_t uid, const std::string& path) {
  int fd = -1;
  int error = 0;
  std::thread([&] {
    // Of this thread alone, which the functions of the C library are not.
    if (::syscall(SYS_setresgid, uid, uid, uid) != 0 ||
        ::syscall(SYS_setresuid, uid, uid, 0) != 0) {
      error = errno;
      return;
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      error = errno;
    }
  }).join();
  if (error != 0) {
    throw std::runtime_error("uid " + std::to_string(uid) + " cannot connect to " + path + ": " +
                             std::strerror(error));
  }
  return fd;
}

}  // namespace

Flood::Flood(Begin begin, size_t at_a_time)
    : begin_(std::move(begin)), thread_([this, at_a_time] { Run(at_a_time); }) {}

Flood::~Flood() {
  stop_ = true;
  thread_.join();
}

void Flood::Run(size_t at_a_time) {
  uint64_t number = 0;
  const auto begin = [&] {
    std::unique_ptr<Call> call = begin_(queue_, number++);
    Call* const key = call.get();
    under_way_.emplace(key, std::move(call));
  };
  while (under_way_.size() < at_a_time) begin();
  while (!under_way_.empty()) {
    void* tag = nullptr;
    bool ok = false;
    const auto soon = std::chrono::system_clock::now() + std::chrono::milliseconds(10);
    if (queue_.AsyncNext(&tag, &ok, soon) == grpc::CompletionQueue::GOT_EVENT) {
      const auto call = under_way_.extract(static_cast<Call*>(tag));
      ++answered_;
      if (call.mapped()->status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) ++refused_;
      if (!stop_) begin();
    }
    if (!stop_) continue;
    for (const auto& [key, call] : under_way_) call->context.TryCancel();
  }
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) continue;
}

ApiUser::ApiUser(std::shared_ptr<grpc::Channel> channel)
    : transfers(v1::TransferService::NewStub(channel)),
      buffers(v1::BufferService::NewStub(channel)),
      nodes(v1::NodeService::NewStub(channel)),
      arrivals(v1::ArrivalService::NewStub(channel)),
      sessions_(v1::SessionService::NewStub(channel)) {
  session_ = sessions_->OpenSession(&context_, {});
  v1::Session session;
  if (!session_->Read(&session)) {
    throw std::runtime_error("no session: " + session_->Finish().error_message());
  }
  token_ = session.token();
  owner_ = session.owner();
}

ApiUser::~ApiUser() {
  context_.TryCancel();
  (void)session_->Finish();
}

std::function<void(grpc::ClientContext&)> ApiUser::prepare() const {
  return [token = token_](grpc::ClientContext& context) {
    context.AddMetadata("onecopy-session", token);
  };
}

std::shared_ptr<grpc::Channel> ChannelAs(uid_t uid, const std::string& run_dir) {
  return grpc::CreateInsecureChannelFromFd("localhost", ConnectAs(uid, run_dir + "/api.sock"));
}

v1::Ranges ManyRanges(uint64_t stride, size_t count) {
  v1::Ranges ranges;
  for (size_t i = 0; i < count; ++i) ranges.add_offset_bytes(i * stride);
  ranges.add_bytes(1);
  return ranges;
}

}  // namespace onecopy::testing
