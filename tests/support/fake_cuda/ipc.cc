// The fake driver's memory of other processes: legacy handles.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/support/fake_cuda/state.h"

using fake_cuda::Context;
using fake_cuda::Current;
using fake_cuda::FindRange;
using fake_cuda::kGranularity;
using fake_cuda::Range;
using fake_cuda::TheState;

namespace {

// What a legacy handle holds.
struct IpcHandle {
  char magic[8];
  pid_t pid;
  int fd;
  int device;
  size_t bytes;
};
constexpr char kMagic[8] = {'f', 'a', 'k', 'e', 'c', 'u', 'd', 'a'};

CUipcMemHandle MakeHandle(pid_t pid, const Range& range) {
  IpcHandle content{{}, pid, range.fd, range.device, range.bytes};
  std::memcpy(content.magic, kMagic, sizeof kMagic);
  CUipcMemHandle handle{};
  std::memcpy(handle.reserved, &content, sizeof content);
  return handle;
}

// What a handle stands for: a descriptor of this process, or one of the process that really made
// it; -1 where that has gone.
int MemoryOf(const IpcHandle& content) {
  if (content.pid < 0) return content.fd;
  const std::string theirs =
      "/proc/" + std::to_string(content.pid) + "/fd/" + std::to_string(content.fd);
  return ::open(theirs.c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace

extern "C" {

void* fakeCudaForeign(FakeCudaKind kind, int device, size_t bytes, CUipcMemHandle* handle,
                      int* fd) {
  const int memory = fake_cuda::NewMemory(device, bytes);
  void* const view = fake_cuda::MapMemory(memory, bytes, nullptr, true);
  const Range range{bytes, kind, device, memory, true, {}};
  // As if a process with another number had made it; the descriptor is found here all the same.
  if (kind == FAKE_CUDA_LEGACY) *handle = MakeHandle(-1, range);
  if (kind == FAKE_CUDA_VMM) *fd = ::fcntl(memory, F_DUPFD_CLOEXEC, 0);
  return view;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(TheState().mutex);
  const Range* const range = FindRange(address, 1);
  if (range == nullptr || range->kind != FAKE_CUDA_LEGACY) return CUDA_ERROR_INVALID_VALUE;
  *handle = MakeHandle(::getpid(), *range);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  IpcHandle content{};
  std::memcpy(&content, handle.reserved, sizeof content);
  if (std::memcmp(content.magic, kMagic, sizeof kMagic) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (content.pid == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::string key(handle.reserved, sizeof handle.reserved);
  const std::lock_guard lock(TheState().mutex);
  if (context->ipc.contains(key)) return CUDA_ERROR_ALREADY_MAPPED;
  const int fd = MemoryOf(content);
  if (fake_cuda::DeviceOf(fd) != content.device) return CUDA_ERROR_MAP_FAILED;
  *address = reinterpret_cast<CUdeviceptr>(fake_cuda::MapMemory(fd, content.bytes, nullptr, true));
  // As the real one, which says that the memory lies where it was opened.
  TheState().ranges[*address] = {content.bytes, FAKE_CUDA_LEGACY, context->device, fd, true, {}};
  context->ipc[key] = *address;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(TheState().mutex);
  const auto opened = std::find_if(context->ipc.begin(), context->ipc.end(),
                                   [&](const auto& entry) { return entry.second == address; });
  if (opened == context->ipc.end()) return CUDA_ERROR_INVALID_VALUE;
  IpcHandle content{};
  std::memcpy(&content, opened->first.data(), sizeof content);
  context->ipc.erase(opened);
  const Range& range = TheState().ranges.at(address);
  ::munmap(reinterpret_cast<void*>(address), range.bytes);
  if (content.pid >= 0) ::close(range.fd);
  TheState().ranges.erase(address);
  return CUDA_SUCCESS;
}

// Not a dma-buf, but a file of the same size that tells what was asked for.

}  // extern "C"
