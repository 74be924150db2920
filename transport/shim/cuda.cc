#include "transport/shim/cuda.h"

#include <cstdlib>
#include <string_view>

#include "onecopy/reasons.h"
#include "transport/shim/library.h"

namespace onecopy::shim {
namespace {

constexpr char kSoname[] = "libcuda.so.1";

Status TooOld(std::string detail) {
  return {Code::kFailedPrecondition, reasons::kDriverTooOld, std::move(detail),
          "install an NVIDIA driver for CUDA " + CudaVersionText(kOldestCudaDriver) +
              " or newer (550 or newer)"};
}

Status Failed(std::string detail) {
  return {Code::kFailedPrecondition, reasons::kDriverFailed, std::move(detail),
          "check that nvidia-smi works, and look for NVRM messages in the kernel log"};
}

Status NoGpu(std::string detail) {
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    detail += "; CUDA_VISIBLE_DEVICES is \"" + std::string(visible) + "\"";
  }
  return {Code::kFailedPrecondition, reasons::kNoGpu, std::move(detail),
          "check that nvidia-smi lists a GPU, and that this process may open /dev/nvidia*"};
}

template <typename Function>
bool Resolve(const Library& library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(library.Find(symbol));
  return function != nullptr;
}

// Before everything else, since a driver that is too old lacks the other functions.
Status CheckVersion(const Library& library, CudaApi& api) {
  if (!Resolve(library, "cuDriverGetVersion", api.DriverGetVersion)) {
    return {Code::kFailedPrecondition, reasons::kNoDriver,
            library.name() + " is not the CUDA driver: it lacks cuDriverGetVersion",
            "correct [libraries] cuda in the configuration"};
  }
  const CUresult error = api.DriverGetVersion(&api.driver_version);
  if (error == CUDA_ERROR_STUB_LIBRARY) {
    return {Code::kFailedPrecondition, reasons::kNoDriver,
            library.name() + " is the toolkit's stub, not the driver",
            "remove the folder \"stubs\" from the library search path"};
  }
  if (error != CUDA_SUCCESS) {
    return Failed("cuDriverGetVersion: error " + std::to_string(error));
  }
  if (api.driver_version < kOldestCudaDriver) {
    return TooOld("the driver supports CUDA " + CudaVersionText(api.driver_version) + ", and " +
                  CudaVersionText(kOldestCudaDriver) + " or newer is needed");
  }
  return OkStatus();
}

Status ResolveAll(const Library& library, CudaApi& api) {
  std::string missing;
#define ONECOPY_CUDA_RESOLVE(member, symbol) \
  if (!Resolve(library, #symbol, api.member)) missing += std::string(" ") + #symbol;
  ONECOPY_CUDA_FUNCTIONS(ONECOPY_CUDA_RESOLVE)
#undef ONECOPY_CUDA_RESOLVE
#define ONECOPY_CUDA_RESOLVE(member, symbol) (void)Resolve(library, #symbol, api.member);
  ONECOPY_CUDA_OPTIONAL_FUNCTIONS(ONECOPY_CUDA_RESOLVE)
#undef ONECOPY_CUDA_RESOLVE
  if (missing.empty()) return OkStatus();
  return TooOld("the driver reports CUDA " + CudaVersionText(api.driver_version) + ", but " +
                library.name() + " lacks" + missing);
}

}  // namespace

std::string CudaVersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<std::shared_ptr<const CudaApi>> LoadCuda(const std::string& path) {
  ONECOPY_ASSIGN_OR_RETURN(
      const Library library,
      Library::Open(path, kSoname, "cuda", reasons::kNoDriver,
                    "NVIDIA's driver (libcuda1 on Debian, libnvidia-compute-VERSION on Ubuntu)"));
  auto api = std::make_shared<CudaApi>();
  ONECOPY_RETURN_IF_ERROR(CheckVersion(library, *api));
  ONECOPY_RETURN_IF_ERROR(ResolveAll(library, *api));
  const CUresult error = api->Init(0);
  if (error == CUDA_ERROR_NO_DEVICE) {
    return NoGpu("the driver (CUDA " + CudaVersionText(api->driver_version) + ") sees no GPU");
  }
  if (error != CUDA_SUCCESS) return Failed("cuInit: " + CudaErrorText(*api, error));
  int count = 0;
  if (const CUresult counted = api->DeviceGetCount(&count); counted != CUDA_SUCCESS) {
    return Failed("cuDeviceGetCount: " + CudaErrorText(*api, counted));
  }
  if (count == 0) {
    return NoGpu("the driver (CUDA " + CudaVersionText(api->driver_version) + ") shows no GPU");
  }
  return std::shared_ptr<const CudaApi>(std::move(api));
}

void UsePciBusOrder() { ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1); }

std::string CudaErrorText(const CudaApi& api, CUresult error) {
  const char* name = nullptr;
  const char* text = nullptr;
  const std::string number = std::to_string(static_cast<int>(error));
  if (api.GetErrorName(error, &name) != CUDA_SUCCESS || name == nullptr) {
    return "CUDA error " + number;
  }
  std::string result = std::string(name) + " (" + number + ")";
  if (api.GetErrorString(error, &text) == CUDA_SUCCESS && text != nullptr) {
    result += std::string(": ") + text;
  }
  return result;
}

Result<CudaUuid> ReadCudaUuid(const CudaApi& api, CUdevice device) {
  CUuuid uuid{};
  CUuuid physical{};
  CUresult error = api.DeviceGetUuid(&uuid, device);
  if (error == CUDA_SUCCESS) error = api.DeviceGetPhysicalUuid(&physical, device);
  if (error != CUDA_SUCCESS) {
    return Failed("reading a device's UUID: " + CudaErrorText(api, error));
  }
  // The two differ where the device is a MIG instance: the newer call names the instance.
  const bool mig = std::string_view(uuid.bytes, sizeof uuid.bytes) !=
                   std::string_view(physical.bytes, sizeof physical.bytes);
  static constexpr char kDigits[] = "0123456789abcdef";
  CudaUuid result{mig ? "MIG-" : "GPU-", mig};
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) result.text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    result.text += kDigits[byte >> 4];
    result.text += kDigits[byte & 15];
  }
  return result;
}

}  // namespace onecopy::shim
