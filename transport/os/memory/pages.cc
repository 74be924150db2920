#include "transport/os/memory/pages.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"
#include "transport/os/machine/machine.h"

namespace onecopy::os {

Status MakePages(const UniqueFd& file, const Mapping& mapping) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
  // Less than a machine's other programs take at any time; asking would take longer.
  constexpr uint64_t kLittle = uint64_t{16} << 20;
  if (mapping.bytes() > kLittle) {
    if (const uint64_t left = AvailableMemoryBytes(); left < mapping.bytes()) {
      return {Code::kResourceExhausted, reasons::kNoMemory,
              FormatBytes(mapping.bytes()) + " of host memory do not fit: the machine, or this " +
                  "process's control group, has " + FormatBytes(left) + " available",
              "free memory, or ask for less"};
    }
  }
  if (::madvise(mapping.data(), mapping.bytes(), kPopulateWrite) == 0) return OkStatus();
  // A kernel older than 5.14 does not know that: the file at least has no holes.
  if (errno == EINVAL && ::fallocate(file.get(), 0, 0, static_cast<off_t>(mapping.bytes())) == 0) {
    return OkStatus();
  }
  const int error = errno == EFAULT ? ENOMEM : errno;
  return ErrnoStatus(error, "taking " + FormatBytes(mapping.bytes()) + " of host memory");
}

}  // namespace onecopy::os
