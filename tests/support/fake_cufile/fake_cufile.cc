// A libcufile without a drive or a GPU that could do it, for tests: it reads and writes memory of
// the fake CUDA driver's GPUs (tests/support/fake_cuda), counts as the real one does, and is
// stricter: what is not aligned, and memory that is not registered, counts as bounced.
//
// FAKE_CUFILE in the environment says what it is, words with commas between, read at each call:
//   compat       there is no nvidia-fs: its driver opens in compatibility mode alone, and all goes
//                through host memory
//   lies         its driver opens as if nvidia-fs were there, and all goes through host memory
//   crash, hang  when its driver is opened
//   no-files     it takes no file
//   no-pin       it registers no memory
//   small-bar    it registers no memory of more than 8 MiB
//   short        reads and writes move half of what is asked, in whole blocks
//   eio          reads and writes fail, from the file's second MiB on
//   odd-bytes    what it reads is not what the file has
#include <cuda.h>
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "transport/shim/cufile.h"

namespace {

namespace cufile = onecopy::shim::cufile;

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr size_t kGpus = 16;

struct State {
  std::mutex mutex;
  bool open = false;
  bool compatibility = true;
  std::map<uintptr_t, size_t> buffers;
  std::map<int, cufile::GpuCounts> gpus;
};

State& TheState() {
  static State* const state = new State;
  return *state;
}

bool Is(const std::string& word) {
  const char* const text = std::getenv("FAKE_CUFILE");
  return text != nullptr &&
         ("," + std::string(text) + ",").find("," + word + ",") != std::string::npos;
}

bool ByHost() { return Is("compat") || Is("lies"); }

// A function of the fake driver, which lies beside this library and is loaded already.
template <typename Function>
Function* Driver(const char* name) {
  Dl_info here{};
  ::dladdr(reinterpret_cast<void*>(&TheState), &here);
  std::string path = here.dli_fname;
  path.resize(path.rfind('/'));
  path += "/libonecopy_fake_cuda.so";
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
}

int DeviceOf(const void* address) {
  auto* const ask = Driver<decltype(cuPointerGetAttribute)>("cuPointerGetAttribute");
  int device = -1;
  if (ask == nullptr || ask(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                            reinterpret_cast<CUdeviceptr>(address)) != CUDA_SUCCESS) {
    return -1;
  }
  return device;
}

void Count(int device, uintptr_t address, size_t bytes, uint64_t offset, bool write) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  cufile::GpuCounts& counts = state.gpus[device];
  const auto after = state.buffers.upper_bound(address);
  const bool registered = after != state.buffers.begin() &&
                          std::prev(after)->first + std::prev(after)->second >= address + bytes;
  const bool whole = (address | bytes | offset) % kBlock == 0;
  ++(write ? counts.writes : counts.reads);
  (write ? counts.written_bytes : counts.read_bytes) += bytes;
  if (ByHost()) {
    ++(write ? counts.posix_writes : counts.posix_reads);
    return;
  }
  ++(write ? counts.nvfs_writes : counts.nvfs_reads);
  if (!registered || !whole) ++(write ? counts.unaligned_writes : counts.unaligned_reads);
}

ssize_t Move(cufile::Handle handle, void* base, size_t bytes, off_t offset, off_t inside,
             bool write) {
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(handle)) - 1;
  auto* const at = static_cast<char*>(base) + inside;
  const int device = DeviceOf(at);
  if (device < 0) return -5012;
  const auto place = static_cast<uint64_t>(offset);
  if (Is("eio") && place + bytes > kMiB) {
    errno = EIO;
    return -1;
  }
  if (Is("short") && bytes >= 2 * kBlock) bytes = bytes / 2 / kBlock * kBlock;
  const ssize_t moved = write ? ::pwrite(fd, at, bytes, offset) : ::pread(fd, at, bytes, offset);
  if (moved > 0 && !write && Is("odd-bytes")) ++at[moved / 2];
  if (moved > 0) {
    Count(device, reinterpret_cast<uintptr_t>(at), static_cast<size_t>(moved), place, write);
  }
  return moved;
}

}  // namespace

extern "C" {

cufile::Error cuFileDriverOpen() {
  if (Is("crash")) ::raise(SIGABRT);
  while (Is("hang")) ::pause();
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (Is("compat") && !state.compatibility) return {cufile::kDriverNotInitialized, 0};
  state.open = true;
  return {};
}

cufile::Error cuFileDriverGetProperties(cufile::Properties* properties) {
  *properties = {};
  properties->nvidia_fs.major = Is("compat") ? 0 : 2;
  properties->nvidia_fs.minor = Is("compat") ? 0 : 17;
  if (TheState().compatibility) properties->nvidia_fs.control_flags = cufile::kAllowsCompatibility;
  return {};
}

cufile::Error cuFileHandleRegister(cufile::Handle* handle, cufile::Descriptor* descriptor) {
  if (Is("no-files")) return {cufile::kIoNotSupported, 0};
  *handle = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor->handle.fd) + 1);
  return {};
}

void cuFileHandleDeregister(cufile::Handle) {}

cufile::Error cuFileBufRegister(const void* base, size_t bytes, int) {
  if (Is("no-pin") || (Is("small-bar") && bytes > 8 * kMiB)) return {cufile::kPinningFailed, 0};
  if (DeviceOf(base) < 0) return {5012, 0};
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const bool added = state.buffers.emplace(reinterpret_cast<uintptr_t>(base), bytes).second;
  return {added ? 0 : 5023, 0};
}

cufile::Error cuFileBufDeregister(const void* base) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return {state.buffers.erase(reinterpret_cast<uintptr_t>(base)) == 1 ? 0 : 5024, 0};
}

ssize_t cuFileRead(cufile::Handle handle, void* base, size_t bytes, off_t offset, off_t inside) {
  return Move(handle, base, bytes, offset, inside, false);
}

ssize_t cuFileWrite(cufile::Handle handle, const void* base, size_t bytes, off_t offset,
                    off_t inside) {
  return Move(handle, const_cast<void*>(base), bytes, offset, inside, true);
}

#ifndef FAKE_CUFILE_OLD
cufile::Error cuFileGetVersion(int* version) {
  *version = 1150;
  return {};
}

cufile::Error cuFileSetParameterBool(int parameter, bool value) {
  if (parameter == cufile::kAllowCompatibilityMode) TheState().compatibility = value;
  return {};
}

cufile::Error cuFileSetStatsLevel(int) { return {}; }
cufile::Error cuFileStatsStart() { return {}; }

cufile::Error cuFileGetStatsL3(cufile::Statistics* statistics) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  *statistics = {};
  for (const auto& [device, counts] : state.gpus) {
    if (statistics->gpus == kGpus) break;
    cufile::GpuCounts& out = statistics->per_gpu[statistics->gpus++];
    out = counts;
    out.uuid.fill(0x5a);
    out.uuid[0] = static_cast<char>(0xa0 + device);
  }
  return {};
}
#endif
}
