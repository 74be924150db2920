#include "bench/work/settings.h"

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/machine/machine.h"

namespace onecopy::bench {

Status CheckHostMemory(uint64_t bytes, unsigned copies) {
  const uint64_t available = os::AvailableMemoryBytes();
  if (bytes <= available / copies) return OkStatus();
  return {Code::kResourceExhausted, reasons::kNoMemory,
          std::to_string(copies) + " times " + FormatBytes(bytes) +
              " of host memory are needed, and " + FormatBytes(available) + " are available",
          "ask for less with --sizes"};
}

Row NotSetUp(Row row, const Status& why) {
  const bool waived =
      why.code() == Code::kResourceExhausted || why.reason() == reasons::kBufferNotFound;
  return waived ? Waived(std::move(row), why) : Failed(std::move(row), why);
}

}  // namespace onecopy::bench
