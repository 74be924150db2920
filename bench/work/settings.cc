#include "bench/work/settings.h"

#include "transport/core/reasons.h"
#include "transport/core/size.h"
#include "transport/os/machine.h"

namespace onecopy::bench {

Status CheckHostMemory(const Settings& settings, unsigned copies) {
  const uint64_t available = os::AvailableMemoryBytes();
  if (settings.bytes <= available / copies) return OkStatus();
  return {Code::kResourceExhausted, reasons::kNoMemory,
          std::to_string(copies) + " times " + FormatBytes(settings.bytes) +
              " of host memory are needed, and " + FormatBytes(available) + " are available",
          "ask for less by --size"};
}

Row NotSetUp(Row row, const Status& why) {
  return why.code() == Code::kResourceExhausted ? Waived(std::move(row), why)
                                                : Failed(std::move(row), why);
}

}  // namespace onecopy::bench
