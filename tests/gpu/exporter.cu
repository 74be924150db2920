// A user's program: allocates GPU memory with the CUDA runtime, exports it as the client library
// does, and looks at it when asked. Run by tests as `cuda_exporter FD`, with a socket.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "tests/gpu/exporter_protocol.h"
#include "tests/gpu/user_memory.cuh"
#include "transport/shim/cuda_export.h"

namespace onecopy::testing {
namespace {

__global__ void Flip(unsigned char* bytes, uint64_t count) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    bytes[i] = static_cast<unsigned char>(~bytes[i]);
  }
}

struct Allocation {
  MemoryKind kind = MemoryKind::kMalloc;
  int device = 0;
  unsigned char* data = nullptr;  // of the whole allocation
  uint64_t offset = 0;            // of the piece
  uint64_t bytes = 0;
};

void Free(const Allocation& allocation) {
  if (allocation.kind != MemoryKind::kMalloc) throw Failure{"only cudaMalloc memory is freed"};
  CHECK_CUDA(cudaSetDevice(allocation.device));
  CHECK_CUDA(cudaFree(allocation.data));
}

template <size_t N>
void Put(char (&into)[N], const std::string& text) {
  std::memcpy(into, text.data(), text.size() < N ? text.size() : N - 1);
}

class Server {
 public:
  explicit Server(int socket) : socket_(socket) {}

  int Run() {
    ExporterRequest request;
    while (Receive(&request, sizeof request)) {
      std::vector<unsigned char> content;
      if (request.what == ExporterRequest::What::kAllocate) {
        content.resize(request.bytes);
        if (!Receive(content.data(), content.size())) return 1;
      }
      ExporterReply reply;
      os::UniqueFd fd;
      std::vector<unsigned char> answer;
      try {
        Serve(request, content, reply, fd, answer);
      } catch (const Failure& failure) {
        reply.code = -1;
        answer.assign(
            request.what == ExporterRequest::What::kRead ? allocations_.at(request.id).bytes : 0,
            0);
        Put(reply.message, failure.what);
      }
      if (!Send(reply, fd.get()) || !SendBytes(answer)) return 1;
    }
    return 0;
  }

 private:
  void Serve(const ExporterRequest& request, const std::vector<unsigned char>& content,
             ExporterReply& reply, os::UniqueFd& fd, std::vector<unsigned char>& answer) {
    if (request.what == ExporterRequest::What::kAllocate) {
      reply.id = next_++;
      Allocation& allocation = allocations_[reply.id];
      allocation.kind = request.kind;
      allocation.device = request.device;
      allocation.data = Allocate(request.kind, request.device, request.allocation_bytes);
      allocation.offset = request.offset;
      allocation.bytes = request.bytes;
      unsigned char* const piece = allocation.data + allocation.offset;
      CHECK_CUDA(cudaMemcpy(piece, content.data(), content.size(), cudaMemcpyDefault));
      CHECK_CUDA(cudaDeviceSynchronize());
      return Export(reinterpret_cast<uintptr_t>(piece), request, reply, fd);
    }
    const Allocation& allocation = allocations_.at(request.id);
    unsigned char* const piece = allocation.data + allocation.offset;
    CHECK_CUDA(cudaSetDevice(allocation.device));
    switch (request.what) {
      case ExporterRequest::What::kAllocate:
        break;
      case ExporterRequest::What::kRead:
        answer.resize(allocation.bytes);
        CHECK_CUDA(cudaMemcpy(answer.data(), piece, answer.size(), cudaMemcpyDefault));
        break;
      case ExporterRequest::What::kFlip:
        Flip<<<64, 256>>>(piece, allocation.bytes);
        CHECK_CUDA(cudaGetLastError());
        CHECK_CUDA(cudaDeviceSynchronize());
        break;
      case ExporterRequest::What::kFree:
        Free(allocation);
        break;
      case ExporterRequest::What::kDmaBuf: {
        auto exported =
            shim::ExportCudaDmaBuf(reinterpret_cast<uintptr_t>(piece), allocation.bytes);
        if (!exported.ok()) throw Failure{exported.status().ToString()};
        reply.offset = exported->offset;
        fd = std::move(exported->fd);
        break;
      }
    }
  }

  void Export(uintptr_t piece, const ExporterRequest& request, ExporterReply& reply,
              os::UniqueFd& fd) {
    const auto run = [&] {
      auto exported = shim::ExportCuda(piece, request.bytes);
      const Status status = exported.status();
      reply.code = static_cast<int>(status.code());
      Put(reply.reason, status.reason());
      Put(reply.message, status.message());
      Put(reply.remedy, status.remedy());
      if (!exported.ok()) return;
      Put(reply.form, exported->form);
      Put(reply.device_uuid, exported->device_uuid);
      std::memcpy(reply.handle, exported->handle.data(), exported->handle.size());
      reply.offset = exported->offset;
      reply.allocation_bytes = exported->allocation_bytes;
      fd = std::move(exported->fd);
    };
    if (request.on_new_thread != 0) {
      std::thread(run).join();
    } else {
      run();
    }
  }

  bool Receive(void* into, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
      const ssize_t got = ::read(socket_, static_cast<char*>(into) + at, bytes - at);
      if (got <= 0) return false;
      at += static_cast<size_t>(got);
    }
    return true;
  }

  bool SendBytes(const std::vector<unsigned char>& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::write(socket_, bytes.data() + at, bytes.size() - at);
      if (sent <= 0) return false;
      at += static_cast<size_t>(sent);
    }
    return true;
  }

  bool Send(ExporterReply& reply, int fd) {
    iovec piece{&reply, sizeof reply};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    if (fd >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof fd);
      std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    return ::sendmsg(socket_, &message, 0) == static_cast<ssize_t>(sizeof reply);
  }

  const int socket_;
  std::map<uint32_t, Allocation> allocations_;
  uint32_t next_ = 1;
};

}  // namespace
}  // namespace onecopy::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: cuda_exporter FD\n");
    return 2;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  onecopy::shim::UsePciBusOrder();
  return onecopy::testing::Server(std::atoi(argv[1])).Run();
}
