// The fake driver's devices and contexts.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/state.h"

// The header maps this name to the newer function; both must be here.
#undef cuDeviceGetUuid

using fake_cuda::Context;
using fake_cuda::Current;
using fake_cuda::TheState;

namespace fake_cuda {
namespace {

thread_local std::vector<Context*> context_stack;

int Number(const char* variable, int fallback) {
  const char* text = std::getenv(variable);
  return text == nullptr ? fallback : std::atoi(text);
}

thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
thread_local int spoils = 0;

bool Exists(int device) { return device >= 0 && device < TheState().devices; }

}  // namespace

State& TheState() {
  static State* const state = new State;  // outlives the threads of streams
  return *state;
}

Use::Use(size_t of) : bytes(of) { TheState().used += bytes; }
Use::~Use() { TheState().used -= bytes; }

void NoteUnsafe() {
  if (TheState().captures > 0 && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) ++spoils;
}

void NoteSpoiled() { ++spoils; }

Context* Current() { return context_stack.empty() ? nullptr : context_stack.back(); }

}  // namespace fake_cuda

namespace {

CUcontext Opaque(Context* context) { return reinterpret_cast<CUcontext>(context); }
Context* Transparent(CUcontext context) { return reinterpret_cast<Context*>(context); }

}  // namespace

extern "C" {

CUresult cuDriverGetVersion(int* version) {
  const int number = fake_cuda::Number("FAKE_CUDA_VERSION", 13000);
  if (number < 0) return static_cast<CUresult>(-number);
  *version = number;
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned) {
  const int error = fake_cuda::Number("FAKE_CUDA_INIT", 0);
  if (error != 0) return static_cast<CUresult>(error);
  const std::lock_guard lock(TheState().mutex);
  TheState().devices = fake_cuda::Number("FAKE_CUDA_DEVICES", 2);
  TheState().initialised = true;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  static const std::map<int, const char*> names = {
      {1, "CUDA_ERROR_INVALID_VALUE"},    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
      {100, "CUDA_ERROR_NO_DEVICE"},      {201, "CUDA_ERROR_INVALID_CONTEXT"},
      {208, "CUDA_ERROR_ALREADY_MAPPED"}, {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
      {400, "CUDA_ERROR_INVALID_HANDLE"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {801, "CUDA_ERROR_NOT_SUPPORTED"},  {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
      {999, "CUDA_ERROR_UNKNOWN"},
  };
  const auto found = names.find(error);
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "from the fake driver";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (!TheState().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *count = TheState().devices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!fake_cuda::Exists(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (!fake_cuda::Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(length), "Fake GPU %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (!fake_cuda::Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid->bytes, 0x5a, sizeof uuid->bytes);
  uuid->bytes[0] = static_cast<char>(0xa0 + device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  const CUresult result = cuDeviceGetUuid(uuid, device);
  if (std::getenv("FAKE_CUDA_MIG") != nullptr) uuid->bytes[15] = 1;
  return result;
}

// The addresses descend, so that the driver's order is not that of nvidia-smi.
CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  if (!fake_cuda::Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(id, static_cast<size_t>(length), "0000:%02X:00.0", 0xC1 - 0x10 * device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (!fake_cuda::Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = fake_cuda::kDeviceBytes;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (!fake_cuda::Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      *value = -1;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
      *value = std::getenv("FAKE_CUDA_NO_DMABUF") == nullptr ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
      *value = fake_cuda::Number("FAKE_CUDA_ORDERING", 200);
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
      *value = std::getenv("FAKE_CUDA_NO_FLUSH") == nullptr ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      *value = std::getenv("FAKE_CUDA_NO_POSIX_FD") == nullptr ? 1 : 0;
      return CUDA_SUCCESS;
    default:
      *value = 1;
      return CUDA_SUCCESS;
  }
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const bool known = target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX &&
                     (scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ||
                      scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (!fake_cuda::Exists(device) || !fake_cuda::Exists(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer && std::getenv("FAKE_CUDA_NO_PEER") == nullptr ? 1 : 0;
  return CUDA_SUCCESS;
}

// FAKE_CUDA_NVLINK: whether the GPUs are joined by it.
CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device,
                                 CUdevice peer) {
  if (!fake_cuda::Exists(device) || !fake_cuda::Exists(peer)) return CUDA_ERROR_INVALID_DEVICE;
  if (attribute != CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED) return CUDA_ERROR_INVALID_VALUE;
  *value = fake_cuda::Number("FAKE_CUDA_NVLINK", 0);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (!fake_cuda::Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(TheState().mutex);
  Context& primary = TheState().contexts[device];
  primary.device = device;
  ++primary.retains;
  *context = Opaque(&primary);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (TheState().ended) return CUDA_ERROR_DEINITIALIZED;
  const std::lock_guard lock(TheState().mutex);
  Context& primary = TheState().contexts[device];
  if (primary.retains == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary.retains > 0) return CUDA_SUCCESS;
  TheState().leaks += primary.streams + primary.events + static_cast<int>(primary.pins.size()) +
                      static_cast<int>(primary.ipc.size());
  primary = Context{};
  primary.device = device;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (!fake_cuda::Exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(TheState().mutex);
  *flags = 0;
  *active = TheState().contexts[device].retains > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (!fake_cuda::context_stack.empty()) fake_cuda::context_stack.pop_back();
  if (context != nullptr) fake_cuda::context_stack.push_back(Transparent(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (TheState().ended) return CUDA_ERROR_DEINITIALIZED;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  fake_cuda::context_stack.push_back(Transparent(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *context = Opaque(Current());
  fake_cuda::context_stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned) {
  Context* const self = Current();
  if (self == nullptr || peer == nullptr || self == Transparent(peer)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (std::getenv("FAKE_CUDA_NO_PEER") != nullptr) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const std::lock_guard lock(TheState().mutex);
  return self->peers.insert(Transparent(peer)).second ? CUDA_SUCCESS
                                                      : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, fake_cuda::capture_mode);
  return CUDA_SUCCESS;
}

int fakeCudaSpoils() { return fake_cuda::spoils; }
void fakeCudaSetRoom(size_t bytes) { TheState().room = bytes == 0 ? 0 : TheState().used + bytes; }
void fakeCudaEnd(bool ended) { TheState().ended = ended; }

int fakeCudaLeaks() {
  const std::lock_guard lock(TheState().mutex);
  return TheState().leaks;
}

}  // extern "C"
