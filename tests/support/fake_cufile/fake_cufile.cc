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
//   odd-by-host  files of no whole number of blocks go through host memory
//   later        it is of a version that counts vectors, too, before the GPUs
//   batch-crash, batch-hang   when a batch is submitted
//   batch-uncounted           the GPU's counters leave out what batches move
// and of batches, behind the file's first MiB, which is all that a probe reads:
//   batch-submit    they are not taken
//   batch-short     each entry moves half of what is asked, in whole blocks
//   batch-eio       entries of the file's third MiB fail
//   batch-invalid   every third entry is not taken
//   batch-status    nothing is said of them
//   batch-deaf      what is cancelled is never told of
//
// FAKE_CUFILE_GATE names a folder: as long as there is "closed" in it, whatever is to be moved from
// a file's ninth MiB on waits, and makes "waits" there.
//
// Whoever lets go of memory or of a file that something is under way for ends this process: a real
// drive would write into what is somebody else's by then.
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "transport/shim/cufile.h"

namespace {

namespace cufile = onecopy::shim::cufile;

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr unsigned kMostEntries = 64;

struct Batch {
  unsigned entries = 0;
  std::deque<cufile::BatchEntry> waiting;
  std::deque<cufile::BatchEvent> ended;
};

struct State {
  std::mutex mutex;
  std::multiset<cufile::Handle> busy_files;
  std::multiset<uintptr_t> busy_memory;
  bool open = false;
  bool compatibility = true;
  std::map<uintptr_t, size_t> buffers;
  std::map<int, cufile::GpuCounts> gpus;
  cufile::BatchCounts batches{};

  // The beginning of the registered memory that this lies in; itself where it is none.
  uintptr_t MemoryOf(const void* address) {
    const std::lock_guard lock(mutex);
    const auto at = reinterpret_cast<uintptr_t>(address);
    const auto after = buffers.upper_bound(at);
    if (after == buffers.begin()) return at;
    const auto& [begin, bytes] = *std::prev(after);
    return at < begin + bytes ? begin : at;
  }
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

bool ByHost(int fd) {
  if (Is("compat") || Is("lies")) return true;
  struct stat file {};
  return Is("odd-by-host") && ::fstat(fd, &file) == 0 && file.st_size % kBlock != 0;
}

void Count(int device, uintptr_t address, size_t bytes, uint64_t offset, bool write, bool by_host) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  cufile::GpuCounts& counts = state.gpus[device];
  const auto after = state.buffers.upper_bound(address);
  const bool registered = after != state.buffers.begin() &&
                          std::prev(after)->first + std::prev(after)->second >= address + bytes;
  const bool whole = (address | bytes | offset) % kBlock == 0;
  ++(write ? counts.writes : counts.reads);
  (write ? counts.written_bytes : counts.read_bytes) += bytes;
  if (by_host) {
    ++(write ? counts.posix_writes : counts.posix_reads);
    return;
  }
  ++(write ? counts.nvfs_writes : counts.nvfs_reads);
  if (!registered || !whole) ++(write ? counts.unaligned_writes : counts.unaligned_reads);
}

// What is under way for a file and for memory, which may not go before it.
class Busy {
 public:
  Busy(cufile::Handle file, const void* address) : file_(file), at_(TheState().MemoryOf(address)) {
    State& state = TheState();
    const std::lock_guard lock(state.mutex);
    state.busy_files.insert(file_);
    state.busy_memory.insert(at_);
  }
  ~Busy() { Let(file_, at_); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  static void Let(cufile::Handle file, uintptr_t at) {
    State& state = TheState();
    const std::lock_guard lock(state.mutex);
    state.busy_files.erase(state.busy_files.find(file));
    state.busy_memory.erase(state.busy_memory.find(at));
  }

 private:
  const cufile::Handle file_;
  const uintptr_t at_;
};

bool GateIsClosed(uint64_t offset) {
  const char* const folder = std::getenv("FAKE_CUFILE_GATE");
  if (folder == nullptr || offset < 8 * kMiB) return false;
  const std::filesystem::path gate = folder;
  std::error_code error;
  if (!std::filesystem::exists(gate / "closed", error)) return false;
  ::close(::open((gate / "waits").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  return true;
}

ssize_t MoveNow(cufile::Handle handle, void* base, size_t bytes, off_t offset, off_t inside,
                bool write, bool counted) {
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(handle)) - 1;
  auto* const at = static_cast<char*>(base) + inside;
  const int device = DeviceOf(at);
  if (device < 0) return -5012;
  const auto place = static_cast<uint64_t>(offset);
  const ssize_t moved = write ? ::pwrite(fd, at, bytes, offset) : ::pread(fd, at, bytes, offset);
  if (moved > 0 && !write && Is("odd-bytes")) ++at[moved / 2];
  if (moved > 0 && counted) {
    Count(device, reinterpret_cast<uintptr_t>(at), static_cast<size_t>(moved), place, write,
          ByHost(fd));
  }
  return moved;
}

size_t Half(size_t bytes) { return bytes >= 2 * kBlock ? bytes / 2 / kBlock * kBlock : bytes; }

ssize_t Move(cufile::Handle handle, void* base, size_t bytes, off_t offset, off_t inside,
             bool write) {
  const Busy busy(handle, base);
  const auto place = static_cast<uint64_t>(offset);
  while (GateIsClosed(place)) ::usleep(1000);
  if (Is("eio") && place + bytes > kMiB) {
    errno = EIO;
    return -1;
  }
  if (Is("short")) bytes = Half(bytes);
  return MoveNow(handle, base, bytes, offset, inside, write, true);
}

#ifndef FAKE_CUFILE_SINGLE
// One entry of a batch, whose place in it is `index`.
cufile::BatchEvent MoveEntry(const cufile::BatchEntry& entry, size_t index) {
  const auto place = static_cast<uint64_t>(entry.move.offset);
  const bool behind = place >= kMiB;
  size_t bytes = entry.move.bytes;
  if (behind && Is("batch-invalid") && index % 3 == 0) {
    return {entry.cookie, cufile::kBatchInvalid, 0};
  }
  if (place / kMiB == 2 && Is("batch-eio")) {
    return {entry.cookie, cufile::kBatchFailed, static_cast<size_t>(-EIO)};
  }
  if (behind && Is("batch-short")) bytes = Half(bytes);
  const ssize_t moved = MoveNow(entry.file, entry.move.base, bytes, entry.move.offset,
                                entry.move.inside, entry.write != 0, !Is("batch-uncounted"));
  if (moved < 0) return {entry.cookie, cufile::kBatchFailed, static_cast<size_t>(-errno)};
  return {entry.cookie, cufile::kBatchComplete, static_cast<size_t>(moved)};
}
#endif

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
  properties->max_batch = kMostEntries;
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

void cuFileHandleDeregister(cufile::Handle handle) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (state.busy_files.contains(handle)) std::abort();
}

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
  if (state.busy_memory.contains(reinterpret_cast<uintptr_t>(base))) std::abort();
  return {state.buffers.erase(reinterpret_cast<uintptr_t>(base)) == 1 ? 0 : 5024, 0};
}

ssize_t cuFileRead(cufile::Handle handle, void* base, size_t bytes, off_t offset, off_t inside) {
  return Move(handle, base, bytes, offset, inside, false);
}

ssize_t cuFileWrite(cufile::Handle handle, const void* base, size_t bytes, off_t offset,
                    off_t inside) {
  return Move(handle, const_cast<void*>(base), bytes, offset, inside, true);
}

#ifndef FAKE_CUFILE_SINGLE
cufile::Error cuFileBatchIOSetUp(cufile::BatchHandle* handle, unsigned entries) {
  if (entries > kMostEntries) return {5039, 0};
  auto* const batch = new Batch;
  batch->entries = entries;
  *handle = batch;
  return {};
}

cufile::Error cuFileBatchIOSubmit(cufile::BatchHandle handle, unsigned entries,
                                  cufile::BatchEntry* all, unsigned flags) {
  if (Is("batch-crash")) ::raise(SIGABRT);
  while (Is("batch-hang")) ::pause();
  auto& batch = *static_cast<Batch*>(handle);
  const bool behind = static_cast<uint64_t>(all[entries - 1].move.offset) >= kMiB;
  if (entries > batch.entries || flags != 0 || (behind && Is("batch-submit"))) return {5035, 0};
  // One submission at a time.
  if (!batch.waiting.empty() || !batch.ended.empty()) return {5037, 0};
  State& state = TheState();
  for (unsigned i = 0; i < entries; ++i) {
    if (all[i].mode != 1) return {5022, 0};
    const uintptr_t memory = state.MemoryOf(all[i].move.base);
    const std::lock_guard lock(state.mutex);
    state.busy_files.insert(all[i].file);
    state.busy_memory.insert(memory);
  }
  batch.waiting.assign(all, all + entries);
  const std::lock_guard lock(state.mutex);
  ++state.batches.nvfs.ok;
  return {};
}

cufile::Error cuFileBatchIOGetStatus(cufile::BatchHandle handle, unsigned least, unsigned* room,
                                     cufile::BatchEvent* events, timespec* patience) {
  auto& batch = *static_cast<Batch*>(handle);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(patience->tv_sec) +
                     std::chrono::nanoseconds(patience->tv_nsec);
  for (;;) {
    size_t index = 0;
    for (auto entry = batch.waiting.begin(); entry != batch.waiting.end(); ++index) {
      const auto place = static_cast<uint64_t>(entry->move.offset);
      if (place >= kMiB && Is("batch-status")) return {5041, 0};
      if (GateIsClosed(place)) {
        ++entry;
        continue;
      }
      batch.ended.push_back(MoveEntry(*entry, index));
      Busy::Let(entry->file, TheState().MemoryOf(entry->move.base));
      entry = batch.waiting.erase(entry);
    }
    if (batch.ended.size() >= least || std::chrono::steady_clock::now() >= until) break;
    ::usleep(1000);
  }
  // In no order of theirs.
  unsigned given = 0;
  for (; given < *room && !batch.ended.empty(); ++given) {
    events[given] = batch.ended.back();
    batch.ended.pop_back();
  }
  *room = given;
  return {};
}

cufile::Error cuFileBatchIOCancel(cufile::BatchHandle handle) {
  auto& batch = *static_cast<Batch*>(handle);
  for (const cufile::BatchEntry& entry : batch.waiting) {
    Busy::Let(entry.file, TheState().MemoryOf(entry.move.base));
    if (!Is("batch-deaf")) batch.ended.push_back({entry.cookie, cufile::kBatchCancelled, 0});
  }
  batch.waiting.clear();
  return {};
}

void cuFileBatchIODestroy(cufile::BatchHandle handle) { delete static_cast<Batch*>(handle); }
#endif

#ifndef FAKE_CUFILE_OLD
cufile::Error cuFileGetVersion(int* version) {
  *version = Is("later") ? 1200 : 1150;
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
  std::byte* const begin = statistics->bytes.data();
  std::memcpy(begin + cufile::kBatchCountsAt, &state.batches, sizeof state.batches);
  std::byte* at = begin + (Is("later") ? cufile::kGpusAtLater : cufile::kGpusAt);
  const auto gpus = static_cast<uint32_t>(std::min(state.gpus.size(), cufile::kMostGpus));
  std::memcpy(at, &gpus, sizeof gpus);
  at += sizeof(uint64_t);
  uint32_t written = 0;
  for (const auto& [device, counts] : state.gpus) {
    if (written++ == gpus) break;
    cufile::GpuCounts out = counts;
    out.uuid.fill(0x5a);
    out.uuid[0] = static_cast<char>(0xa0 + device);
    std::memcpy(at, &out, sizeof out);
    at += sizeof out;
  }
  return {};
}
#endif
}
