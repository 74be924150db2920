#include "transport/store/cufile/failure.h"

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::cufile {
namespace {

struct Meaning {
  std::string_view reason;
  const char* remedy;
};

Meaning MeaningOf(int code) {
  using namespace shim::cufile;
  switch (code) {
    case kDriverNotInitialized:
    case kPlatformNotSupported:
      return {reasons::kCompatibilityMode,
              "load nvidia-fs (modprobe nvidia-fs), or use a kernel, a driver and a drive that "
              "support peer-to-peer DMA (gdscheck -p lists them)"};
    case kIoNotSupported:
    case kInvalidFileType:
    case kDirectNotSet:
    case kHandleNotRegistered:
    case kIoDisabled:
    case kInternal:
      return {reasons::kFileSystem,
              "put the file on ext4 (data=ordered) or xfs of an NVMe drive, or on a parallel file "
              "system that GPUDirect Storage supports (gdscheck -p lists them)"};
    case kDeviceNotSupported:
      return {reasons::kNoGds, "use a data centre or professional GPU"};
    case kInvalidMappingSize:
    case kInvalidMappingRange:
    case kPinningFailed:
    case kNoMemory:
    case kBufferNotRegistered:
      return {reasons::kGpuNotPinnable,
              "have other programs free GPU memory that they pinned, or enlarge the GPU's BAR1"};
    default:
      return {reasons::kDriverFailed, "check the library's log, and run gdscheck -p"};
  }
}

}  // namespace

bool IsOutOfBar1(const shim::cufile::Error& error) {
  using namespace shim::cufile;
  return error.code == kInvalidMappingSize || error.code == kInvalidMappingRange ||
         error.code == kPinningFailed || error.code == kNoMemory ||
         error.code == kBufferNotRegistered;
}

Status Failure(const std::string& what, const shim::cufile::Error& error) {
  const Meaning meaning = MeaningOf(std::abs(error.code));
  return {Code::kFailedPrecondition, meaning.reason, what + ": " + shim::CuFileErrorText(error),
          meaning.remedy};
}

Status IoFailure(const std::string& what, ssize_t result, int native) {
  constexpr int kIoError = 5044;
  const bool full = native == ENOSPC || native == EDQUOT;
  if (result == -1) {
    return os::ErrnoStatus(native == 0 ? EIO : native, what,
                           full ? "free some space, or write elsewhere" : "");
  }
  if (result == -kIoError) return os::ErrnoStatus(EIO, what);
  return Failure(what, {static_cast<int>(-result), 0});
}

}  // namespace onecopy::cufile
