// A user's program: allocates GPU memory with the CUDA runtime, exports it as the client library
// does, and looks at it when asked. Run by tests as `cuda_exporter FD`, with a socket.
#include <cuda_runtime.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/exporter_protocol.h"
#include "transport/shim/cuda_export.h"

namespace onecopy::testing {
namespace {

struct Failure {
  std::string what;
};

void Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw Failure{std::string(what) + ": " + cudaGetErrorName(error) + " (" +
                  std::to_string(static_cast<int>(error)) + ")"};
  }
}

const shim::CudaApi& Driver() {
  static const auto api = shim::LoadCuda();
  if (!api.ok()) throw Failure{api.status().ToString()};
  return **api;
}

void Check(CUresult error, const char* what) {
  if (error != CUDA_SUCCESS) {
    throw Failure{std::string(what) + ": " + shim::CudaErrorText(Driver(), error)};
  }
}

#define CHECK_CUDA(call) Check(call, #call)

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

// `count` allocations of `bytes` (rounded up) each, mapped side by side, `lead` of them further
// inside a reservation.
unsigned char* AllocateVmm(int device, uint64_t bytes, unsigned count, unsigned lead,
                           CUmemAllocationHandleType handle_type) {
  const shim::CudaApi& api = Driver();
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = handle_type;
  size_t granularity = 0;
  CHECK_CUDA(
      api.MemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const uint64_t each = (bytes + granularity - 1) / granularity * granularity;
  CUdeviceptr start = 0;
  CHECK_CUDA(api.MemAddressReserve(&start, each * (count + 2 * lead), granularity, 0, 0));
  start += each * lead;
  for (unsigned i = 0; i < count; ++i) {
    CUmemGenericAllocationHandle handle = 0;
    CHECK_CUDA(api.MemCreate(&handle, each, &properties, 0));
    CHECK_CUDA(api.MemMap(start + i * each, each, 0, handle, 0));
    CHECK_CUDA(api.MemRelease(handle));
  }
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK_CUDA(api.MemSetAccess(start, each * count, &access, 1));
  return reinterpret_cast<unsigned char*>(start);
}

unsigned char* AllocateFromPool(int device, uint64_t bytes) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  void* data = nullptr;
  CHECK_CUDA(cudaMemPoolCreate(&pool, &properties));
  CHECK_CUDA(cudaMallocFromPoolAsync(&data, bytes, pool, nullptr));
  CHECK_CUDA(cudaStreamSynchronize(nullptr));
  return static_cast<unsigned char*>(data);
}

unsigned char* Allocate(MemoryKind kind, int device, uint64_t bytes) {
  CHECK_CUDA(cudaSetDevice(device));
  CHECK_CUDA(cudaFree(nullptr));  // opens the context
  void* data = nullptr;
  switch (kind) {
    case MemoryKind::kMalloc:
      CHECK_CUDA(cudaMalloc(&data, bytes));
      break;
    case MemoryKind::kMallocAsync:
      CHECK_CUDA(cudaMallocAsync(&data, bytes, nullptr));
      CHECK_CUDA(cudaStreamSynchronize(nullptr));
      break;
    case MemoryKind::kPool:
      return AllocateFromPool(device, bytes);
    case MemoryKind::kMallocManaged:
      CHECK_CUDA(cudaMallocManaged(&data, bytes));
      break;
    case MemoryKind::kHostAlloc:
      CHECK_CUDA(cudaHostAlloc(&data, bytes, cudaHostAllocDefault));
      break;
    case MemoryKind::kHeap:
      data = std::malloc(bytes);
      break;
    case MemoryKind::kVmm:
      return AllocateVmm(device, bytes, 1, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    case MemoryKind::kVmmInside:
      return AllocateVmm(device, bytes, 1, 3, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    case MemoryKind::kVmmTwo:
      return AllocateVmm(device, bytes, 2, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    case MemoryKind::kVmmNoHandle:
      return AllocateVmm(device, bytes, 1, 0, CU_MEM_HANDLE_TYPE_NONE);
  }
  return static_cast<unsigned char*>(data);
}

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
