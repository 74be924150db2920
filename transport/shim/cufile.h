// NVIDIA's library for files and GPU memory (GPUDirect Storage), opened at run time. Opening it
// does nothing but load it: what has crashed and hung in virtual machines is OpenDriver, which is
// for a process of its own first (see transport/store/cufile).
#pragma once

#include <sys/types.h>
#include <time.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "onecopy/result.h"

namespace onecopy::shim {

// What is used of cufile.h, which no package needs to bring. Layouts are the library's, of all
// versions: what later ones have added comes behind.
namespace cufile {

// How a call ended: the library's own code, from 5001 on, and the CUDA driver's where that failed.
struct Error {
  int code;  // 0: well
  int cuda;
};
inline constexpr int kDriverNotInitialized = 5001;
inline constexpr int kPlatformNotSupported = 5007;
inline constexpr int kIoNotSupported = 5008;
inline constexpr int kDeviceNotSupported = 5009;
inline constexpr int kCudaDriverError = 5011;
inline constexpr int kInvalidMappingSize = 5016;
inline constexpr int kInvalidMappingRange = 5017;
inline constexpr int kInvalidFileType = 5018;
inline constexpr int kDirectNotSet = 5020;
inline constexpr int kAlreadyOpen = 5026;
inline constexpr int kHandleNotRegistered = 5027;
inline constexpr int kInternal = 5030;
inline constexpr int kIoDisabled = 5034;
inline constexpr int kBatchSubmitFailed = 5035;
inline constexpr int kPinningFailed = 5036;
inline constexpr int kNoMemory = 5043;
inline constexpr int kBufferNotRegistered = 5045;

struct Descriptor {
  int type = 1;  // a descriptor of Linux's
  union {
    int fd;
    void* other;
  } handle;
  const void* operations = nullptr;
};
using Handle = void*;

struct Properties {
  struct {
    unsigned int major;
    unsigned int minor;
    size_t poll_threshold_kib;
    size_t max_direct_io_kib;
    unsigned int status_flags;   // kinds of storage, by bit
    unsigned int control_flags;  // by bit
  } nvidia_fs;
  unsigned int features;
  unsigned int max_device_cache_kib;
  unsigned int per_buffer_cache_kib;
  unsigned int max_pinned_kib;
  unsigned int max_batch;
  unsigned int batch_timeout_ms;
  std::array<std::byte, 256> later;  // what a later version may write
};
static_assert(offsetof(Properties, features) == 32 && offsetof(Properties, later) == 56);
inline constexpr unsigned int kAllowsCompatibility = 1U << 1;  // of control_flags

// Many reads and writes by one call. An entry is what cuFileRead and cuFileWrite take.
struct BatchEntry {
  int mode = 1;  // the only one that there is
  struct {
    void* base;
    off_t offset;
    off_t inside;
    size_t bytes;
  } move;
  Handle file;
  int write;  // 0: it is read
  void* cookie;
};
static_assert(sizeof(BatchEntry) == 64 && offsetof(BatchEntry, cookie) == 56);
struct BatchEvent {
  void* cookie;
  int status;
  size_t result;  // bytes; or negative, as of cuFileRead
};
static_assert(sizeof(BatchEvent) == 24);
using BatchHandle = void*;
inline constexpr int kBatchWaiting = 0x01;
inline constexpr int kBatchPending = 0x02;
inline constexpr int kBatchInvalid = 0x04;
inline constexpr int kBatchCancelled = 0x08;
inline constexpr int kBatchComplete = 0x10;
inline constexpr int kBatchTimeout = 0x20;
inline constexpr int kBatchFailed = 0x40;

struct GpuCounts {
  std::array<char, 16> uuid;
  uint64_t read_bytes, read_rate, read_use, read_us;
  uint64_t reads, p2p_reads, nvfs_reads, posix_reads, unaligned_reads, routed_reads;
  uint64_t sparse_regions, inline_regions, failed_reads;
  uint64_t written_bytes, write_rate, write_use, write_us;
  uint64_t writes, p2p_writes, nvfs_writes, posix_writes, unaligned_writes, routed_writes,
      failed_writes;
  uint64_t maps, good_maps, failed_maps, unmaps, registered_bytes;
};
static_assert(sizeof(GpuCounts) == 248);
// How often something was done: well, and badly.
struct OperationCount {
  uint64_t ok;
  uint64_t failed;
};
// Of the statistics of all GPUs together, which come first and are the same in all versions.
struct BatchCounts {
  OperationCount submitted, completed, set_up, cancelled, destroyed;
  OperationCount enqueued, posix_enqueued, processed, posix_processed;
  OperationCount nvfs, p2p, aio, io_uring, mixed, all;  // submissions, by kind
};
inline constexpr size_t kBatchCountsAt = 176;
// The number of GPUs, and eight bytes behind it theirs: the statistics before them have grown.
inline constexpr size_t kGpusAt = 1024;       // until 1.18
inline constexpr size_t kGpusAtLater = 1136;  // from 1.19 on
inline constexpr size_t kMostGpus = 16;
struct Statistics {
  alignas(8) std::array<std::byte, 16384> bytes;  // a later version may write more of them
};
inline constexpr int kPerGpuStatistics = 3;
inline constexpr int kAllowCompatibilityMode = 1;  // a parameter

}  // namespace cufile

// Member of CuFileApi, and the symbol behind it.
struct CuFileApi {
  cufile::Error (*OpenDriver)() = nullptr;
  cufile::Error (*GetProperties)(cufile::Properties*) = nullptr;
  cufile::Error (*RegisterHandle)(cufile::Handle*, cufile::Descriptor*) = nullptr;
  void (*DeregisterHandle)(cufile::Handle) = nullptr;
  cufile::Error (*RegisterBuffer)(const void*, size_t, int) = nullptr;
  cufile::Error (*DeregisterBuffer)(const void*) = nullptr;
  // Bytes; -1 with errno; or the library's code, negative.
  ssize_t (*Read)(cufile::Handle, void*, size_t, off_t, off_t) = nullptr;
  ssize_t (*Write)(cufile::Handle, const void*, size_t, off_t, off_t) = nullptr;

  // Null where the library is too old to have them; those of batches are there together or not at
  // all. A batch has so many entries at most, is submitted once at a time, and says of each entry
  // once how it ended. GetBatchStatus: `least` to wait for, room for `events` and then their
  // number.
  cufile::Error (*SetUpBatch)(cufile::BatchHandle*, unsigned entries) = nullptr;
  cufile::Error (*SubmitBatch)(cufile::BatchHandle, unsigned entries, cufile::BatchEntry*,
                               unsigned flags) = nullptr;
  cufile::Error (*GetBatchStatus)(cufile::BatchHandle, unsigned least, unsigned* events,
                                  cufile::BatchEvent*, timespec* patience) = nullptr;
  cufile::Error (*CancelBatch)(cufile::BatchHandle) = nullptr;
  void (*DestroyBatch)(cufile::BatchHandle) = nullptr;
  cufile::Error (*GetVersion)(int*) = nullptr;
  cufile::Error (*SetBool)(int, bool) = nullptr;  // before the driver is opened
  cufile::Error (*SetStatisticsLevel)(int) = nullptr;
  cufile::Error (*StartStatistics)() = nullptr;
  cufile::Error (*GetStatistics)(cufile::Statistics*) = nullptr;

  std::string library;  // that was opened
  std::string version;  // "1.14"; empty: it does not say
  // Where its statistics say how many GPUs there are.
  size_t gpus_at = cufile::kGpusAt;

  bool batches() const { return SetUpBatch != nullptr; }
  bool counts() const { return GetStatistics != nullptr && SetStatisticsLevel != nullptr; }
};

// Opens `path`, or libcufile.so.0 where that is empty. Any thread. FAILED_PRECONDITION (NO_CUFILE)
// where it is not there, or lacks a function.
Result<std::shared_ptr<const CuFileApi>> LoadCuFile(const std::string& path = {});

// Opens the driver, which may crash, hang, and takes a second; once in a process. `compatibility`:
// whether bytes may silently go through host memory instead; a library without this parameter
// does as its own configuration says. Counts from now on, where the library can.
cufile::Error OpenCuFileDriver(const CuFileApi& api, bool compatibility);

// "CU_FILE_DRIVER_NOT_INITIALIZED (5001)", with the CUDA driver's number where it has failed.
std::string CuFileErrorText(const cufile::Error& error);

// How often a GPU's memory was read into or written from, by the way in which it was done.
struct CuFileCounts {
  uint64_t direct = 0;    // by nvidia-fs, or peer to peer: the drive reaches the memory itself
  uint64_t posix = 0;     // through host memory: compatibility mode
  uint64_t bounced = 0;   // through other GPU memory: another GPU's, or a bounce buffer
  bool complete = false;  // whether `posix` and `bounced` are counted at all

  friend bool operator==(const CuFileCounts&, const CuFileCounts&) = default;
};

// Since the library was opened by this process, of the GPU of that UUID ("GPU-5f…"); zeroes for one
// that was not used yet. Nothing where the library does not count.
std::optional<CuFileCounts> ReadCuFileCounts(const CuFileApi& api, std::string_view gpu_uuid);

// Of all batches of this process since then, for people: "1 by nvidia-fs, 16 entries by the
// processor". Empty where there were none, or the library does not count.
std::string DescribeCuFileBatches(const CuFileApi& api);

// Of the text of /proc/driver/nvidia-fs/stats: operations of all processes, where it counts them.
std::optional<CuFileCounts> ParseNvidiaFsStats(const std::string& text);

}  // namespace onecopy::shim
