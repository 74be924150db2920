#include "transport/shim/cufile.h"

#include <array>
#include <cctype>
#include <cstring>
#include <sstream>
#include <type_traits>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/shim/library.h"

namespace onecopy::shim {
namespace {

constexpr char kCuFilePackage[] =
    "libcufile (with CUDA: gds-tools or libcufile; from PyPI: nvidia-cufile)";

constexpr std::pair<int, const char*> kCuFileNames[] = {
    {cufile::kDriverNotInitialized, "CU_FILE_DRIVER_NOT_INITIALIZED"},
    {5002, "CU_FILE_DRIVER_INVALID_PROPS"},
    {5003, "CU_FILE_DRIVER_UNSUPPORTED_LIMIT"},
    {5004, "CU_FILE_DRIVER_VERSION_MISMATCH"},
    {5005, "CU_FILE_DRIVER_VERSION_READ_ERROR"},
    {5006, "CU_FILE_DRIVER_CLOSING"},
    {cufile::kPlatformNotSupported, "CU_FILE_PLATFORM_NOT_SUPPORTED"},
    {cufile::kIoNotSupported, "CU_FILE_IO_NOT_SUPPORTED"},
    {cufile::kDeviceNotSupported, "CU_FILE_DEVICE_NOT_SUPPORTED"},
    {5010, "CU_FILE_NVFS_DRIVER_ERROR"},
    {cufile::kCudaDriverError, "CU_FILE_CUDA_DRIVER_ERROR"},
    {5012, "CU_FILE_CUDA_POINTER_INVALID"},
    {5013, "CU_FILE_CUDA_MEMORY_TYPE_INVALID"},
    {5014, "CU_FILE_CUDA_POINTER_RANGE_ERROR"},
    {5015, "CU_FILE_CUDA_CONTEXT_MISMATCH"},
    {cufile::kInvalidMappingSize, "CU_FILE_INVALID_MAPPING_SIZE"},
    {cufile::kInvalidMappingRange, "CU_FILE_INVALID_MAPPING_RANGE"},
    {cufile::kInvalidFileType, "CU_FILE_INVALID_FILE_TYPE"},
    {5019, "CU_FILE_INVALID_FILE_OPEN_FLAG"},
    {cufile::kDirectNotSet, "CU_FILE_DIO_NOT_SET"},
    {5022, "CU_FILE_INVALID_VALUE"},
    {5023, "CU_FILE_MEMORY_ALREADY_REGISTERED"},
    {5024, "CU_FILE_MEMORY_NOT_REGISTERED"},
    {5025, "CU_FILE_PERMISSION_DENIED"},
    {cufile::kAlreadyOpen, "CU_FILE_DRIVER_ALREADY_OPEN"},
    {cufile::kHandleNotRegistered, "CU_FILE_HANDLE_NOT_REGISTERED"},
    {5028, "CU_FILE_HANDLE_ALREADY_REGISTERED"},
    {5029, "CU_FILE_DEVICE_NOT_FOUND"},
    {cufile::kInternal, "CU_FILE_INTERNAL_ERROR"},
    {5031, "CU_FILE_GETNEWFD_FAILED"},
    {5033, "CU_FILE_NVFS_SETUP_ERROR"},
    {cufile::kIoDisabled, "CU_FILE_IO_DISABLED"},
    {5035, "CU_FILE_BATCH_SUBMIT_FAILED"},
    {cufile::kPinningFailed, "CU_FILE_GPU_MEMORY_PINNING_FAILED"},
    {5037, "CU_FILE_BATCH_FULL"},
    {5038, "CU_FILE_ASYNC_NOT_SUPPORTED"},
    {5039, "CU_FILE_INTERNAL_BATCH_SETUP_ERROR"},
    {5040, "CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR"},
    {5041, "CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR"},
    {5042, "CU_FILE_INTERNAL_BATCH_CANCEL_ERROR"},
    {cufile::kNoMemory, "CU_FILE_NOMEM_ERROR"},
    {5044, "CU_FILE_IO_ERROR"},
    {cufile::kBufferNotRegistered, "CU_FILE_INTERNAL_BUF_REGISTER_ERROR"},
    {5049, "CU_FILE_BATCH_NOCOMPAT_ERROR"},
};

// "GPU-5f…", from the sixteen bytes.
std::string TextOfUuid(const std::array<char, 16>& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// What follows `key` in a line, as a number: "n=17" of "Reads : n=17 ok=17".
std::optional<uint64_t> NumberAfter(const std::string& line, const std::string& key) {
  const size_t at = line.find(key);
  if (at == std::string::npos) return std::nullopt;
  size_t end = at + key.size();
  uint64_t number = 0;
  bool any = false;
  for (; end < line.size() && std::isdigit(static_cast<unsigned char>(line[end])) != 0; ++end) {
    number = number * 10 + static_cast<uint64_t>(line[end] - '0');
    any = true;
  }
  if (!any) return std::nullopt;
  return number;
}

}  // namespace

Result<std::shared_ptr<const CuFileApi>> LoadCuFile(const std::string& path) {
  ONECOPY_ASSIGN_OR_RETURN(
      const Library library,
      Library::Open(path, "libcufile.so.0", "cufile", reasons::kNoCuFile, kCuFilePackage));
  auto api = std::make_shared<CuFileApi>();
  std::string missing;
  const auto look = [&](auto& member, const char* symbol) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(library.Find(symbol));
  };
  const auto find = [&](auto& member, const char* symbol) {
    look(member, symbol);
    if (member == nullptr) missing += std::string(" ") + symbol;
  };
  find(api->OpenDriver, "cuFileDriverOpen");
  find(api->GetProperties, "cuFileDriverGetProperties");
  find(api->RegisterHandle, "cuFileHandleRegister");
  find(api->DeregisterHandle, "cuFileHandleDeregister");
  find(api->RegisterBuffer, "cuFileBufRegister");
  find(api->DeregisterBuffer, "cuFileBufDeregister");
  find(api->Read, "cuFileRead");
  find(api->Write, "cuFileWrite");
  look(api->SetUpBatch, "cuFileBatchIOSetUp");
  look(api->SubmitBatch, "cuFileBatchIOSubmit");
  look(api->GetBatchStatus, "cuFileBatchIOGetStatus");
  look(api->CancelBatch, "cuFileBatchIOCancel");
  look(api->DestroyBatch, "cuFileBatchIODestroy");
  if (api->SubmitBatch == nullptr || api->GetBatchStatus == nullptr ||
      api->CancelBatch == nullptr || api->DestroyBatch == nullptr) {
    api->SetUpBatch = nullptr;
  }
  look(api->GetVersion, "cuFileGetVersion");
  look(api->SetBool, "cuFileSetParameterBool");
  look(api->SetStatisticsLevel, "cuFileSetStatsLevel");
  look(api->StartStatistics, "cuFileStatsStart");
  look(api->GetStatistics, "cuFileGetStatsL3");
  if (!missing.empty()) {
    return Status(Code::kFailedPrecondition, reasons::kNoCuFile,
                  library.name() + " lacks" + missing, std::string("install ") + kCuFilePackage);
  }
  api->library = library.name();
  int version = 0;  // 1140 is 1.14.0
  if (api->GetVersion != nullptr && api->GetVersion(&version).code == 0 && version > 0) {
    constexpr int kVectorsCounted = 1190;
    api->version = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    if (version >= kVectorsCounted) api->gpus_at = cufile::kGpusAtLater;
  }
  return std::shared_ptr<const CuFileApi>(std::move(api));
}

cufile::Error OpenCuFileDriver(const CuFileApi& api, bool compatibility) {
  if (api.SetBool != nullptr) {
    const cufile::Error set = api.SetBool(cufile::kAllowCompatibilityMode, compatibility);
    if (set.code != 0) return set;
  }
  if (api.counts()) api.SetStatisticsLevel(cufile::kPerGpuStatistics);
  const cufile::Error opened = api.OpenDriver();
  if (opened.code != 0 && opened.code != cufile::kAlreadyOpen) return opened;
  if (api.StartStatistics != nullptr) api.StartStatistics();
  return {};
}

std::string CuFileErrorText(const cufile::Error& error) {
  const int code = error.code < 0 ? -error.code : error.code;
  std::string text = "error";
  for (const auto& [number, name] : kCuFileNames) {
    if (number == code) text = name;
  }
  text += " (" + std::to_string(code) + ")";
  if (code == cufile::kCudaDriverError || error.cuda != 0) {
    text += ", the CUDA driver's error " + std::to_string(error.cuda);
  }
  return text;
}

std::optional<CuFileCounts> ReadCuFileCounts(const CuFileApi& api, std::string_view gpu_uuid) {
  if (!api.counts()) return std::nullopt;
  auto statistics = std::make_unique<cufile::Statistics>();
  if (api.GetStatistics(statistics.get()).code != 0) return std::nullopt;
  CuFileCounts counts;
  counts.complete = true;
  const std::byte* at = statistics->bytes.data() + api.gpus_at;
  uint32_t gpus = 0;
  std::memcpy(&gpus, at, sizeof gpus);
  at += sizeof(uint64_t);
  for (uint32_t i = 0; i < gpus && i < cufile::kMostGpus; ++i, at += sizeof(cufile::GpuCounts)) {
    cufile::GpuCounts gpu;
    std::memcpy(&gpu, at, sizeof gpu);
    if (TextOfUuid(gpu.uuid) != gpu_uuid) continue;
    counts.direct += gpu.p2p_reads + gpu.nvfs_reads + gpu.p2p_writes + gpu.nvfs_writes;
    counts.posix += gpu.posix_reads + gpu.posix_writes;
    counts.bounced +=
        gpu.unaligned_reads + gpu.unaligned_writes + gpu.routed_reads + gpu.routed_writes;
  }
  return counts;
}

std::string DescribeCuFileBatches(const CuFileApi& api) {
  auto statistics = std::make_unique<cufile::Statistics>();
  if (!api.counts() || api.GetStatistics(statistics.get()).code != 0) return {};
  cufile::BatchCounts counts;
  std::memcpy(&counts, statistics->bytes.data() + cufile::kBatchCountsAt, sizeof counts);
  std::string text;
  for (const auto& [count, how] : {std::pair(counts.nvfs.ok, " by nvidia-fs"),
                                   {counts.p2p.ok, " peer to peer"},
                                   {counts.aio.ok, " by aio"},
                                   {counts.io_uring.ok, " by io_uring"},
                                   {counts.mixed.ok, " mixed"},
                                   {counts.posix_enqueued.ok, " entries by the processor"}}) {
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + how;
  }
  return text;
}

std::optional<CuFileCounts> ParseNvidiaFsStats(const std::string& text) {
  std::istringstream lines(text);
  bool counted = false;
  CuFileCounts counts;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("Reads") && !line.starts_with("Writes")) continue;
    const std::optional<uint64_t> done = NumberAfter(line, " n=");
    counted = counted || done.has_value();
    counts.direct += done.value_or(0);
  }
  if (!counted) return std::nullopt;
  return counts;
}

}  // namespace onecopy::shim
