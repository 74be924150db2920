#include "tests/gpu/exporter.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace onecopy::testing {
namespace {

// <build>/bin/support/cuda_exporter, beside <build>/bin/tests/<suite>/<program>.
std::string ProgramPath() {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path().parent_path() / "support" / "cuda_exporter";
}

}  // namespace

Exporter::Exporter() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw std::runtime_error("socketpair");
  }
  socket_ = os::UniqueFd(ends[0]);
  const os::UniqueFd theirs(ends[1]);
  std::string path = ProgramPath();
  std::string number = std::to_string(ends[1]);
  std::array<char*, 3> arguments = {path.data(), number.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // Onto itself: takes its close-on-exec away in the child.
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], ends[1]);
  const int error =
      ::posix_spawn(&pid_, path.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("starting " + path + ": " + std::strerror(error));
}

Exporter::~Exporter() { Kill(); }

void Exporter::Kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Exporter::ReadExactly(void* into, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t got = ::read(socket_.get(), static_cast<char*>(into) + at, bytes - at);
    if (got <= 0) throw std::runtime_error("the exporter has ended");
    at += static_cast<size_t>(got);
  }
}

ExporterReply Exporter::Ask(const ExporterRequest& request, const Bytes& content,
                            os::UniqueFd* fd) {
  const auto write = [&](const void* from, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
      const ssize_t sent =
          ::send(socket_.get(), static_cast<const char*>(from) + at, bytes - at, MSG_NOSIGNAL);
      if (sent <= 0) throw std::runtime_error("the exporter has ended");
      at += static_cast<size_t>(sent);
    }
  };
  write(&request, sizeof request);
  write(content.data(), content.size());

  ExporterReply reply;
  iovec piece{&reply, sizeof reply};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  if (got <= 0) throw std::runtime_error("the exporter has ended");
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && fd != nullptr) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(header), sizeof number);
    *fd = os::UniqueFd(number);
  }
  ReadExactly(reinterpret_cast<char*>(&reply) + got, sizeof reply - static_cast<size_t>(got));
  return reply;
}

Exported Exporter::Allocate(const Piece& piece, const Bytes& content) {
  ExporterRequest request;
  request.what = ExporterRequest::What::kAllocate;
  request.kind = piece.kind;
  request.device = piece.device;
  request.allocation_bytes = piece.allocation_bytes;
  request.offset = piece.offset;
  request.bytes = content.size();
  request.on_new_thread = piece.on_new_thread ? 1 : 0;
  Exported exported;
  exported.fd = std::make_shared<os::UniqueFd>();
  const ExporterReply reply = Ask(request, content, exported.fd.get());
  if (reply.code < 0) throw std::runtime_error(std::string("the exporter: ") + reply.message);
  exported.id = reply.id;
  if (reply.code != 0) {
    exported.status = Status(CodeFromNumber(reply.code), reply.reason, reply.message, reply.remedy);
    return exported;
  }
  exported.request.form = reply.form;
  exported.request.device = reply.device_uuid;
  exported.request.bytes = content.size();
  exported.request.offset = reply.offset;
  exported.request.allocation_bytes = reply.allocation_bytes;
  exported.request.owner_pid = pid_;
  exported.request.fd = exported.fd->get();
  if (exported.request.form == "cuda-ipc") {
    exported.request.handle.assign(reply.handle, sizeof reply.handle);
  }
  return exported;
}

Bytes Exporter::Read(uint32_t id, uint64_t bytes) {
  ExporterRequest request;
  request.what = ExporterRequest::What::kRead;
  request.id = id;
  const ExporterReply reply = Ask(request, {}, nullptr);
  Bytes content(bytes);
  ReadExactly(content.data(), content.size());
  if (reply.code < 0) throw std::runtime_error(std::string("the exporter: ") + reply.message);
  return content;
}

Exporter::DmaBuf Exporter::ExportDmaBuf(uint32_t id) {
  ExporterRequest request;
  request.what = ExporterRequest::What::kDmaBuf;
  request.id = id;
  DmaBuf exported;
  const ExporterReply reply = Ask(request, {}, &exported.fd);
  if (reply.code < 0) throw std::runtime_error(std::string("the exporter: ") + reply.message);
  exported.offset = reply.offset;
  return exported;
}

void Exporter::Flip(uint32_t id) {
  ExporterRequest request;
  request.what = ExporterRequest::What::kFlip;
  request.id = id;
  const ExporterReply reply = Ask(request, {}, nullptr);
  if (reply.code < 0) throw std::runtime_error(std::string("the exporter: ") + reply.message);
}

void Exporter::Free(uint32_t id) {
  ExporterRequest request;
  request.what = ExporterRequest::What::kFree;
  request.id = id;
  const ExporterReply reply = Ask(request, {}, nullptr);
  if (reply.code < 0) throw std::runtime_error(std::string("the exporter: ") + reply.message);
}

}  // namespace onecopy::testing
