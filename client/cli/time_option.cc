#include "client/cli/time_option.h"

#include "onecopy/reasons.h"
#include "transport/core/base/duration.h"

namespace onecopy::cli {

Result<std::chrono::milliseconds> ParseTimeOption(const std::string& option,
                                                  const std::string& typed) {
  const auto time = ParseDuration(typed);
  if (!time.ok()) return time.status().WithContext(option);
  if (time->count() > 0) return *time;
  return Status(Code::kInvalidArgument, reasons::kBadArgument,
                option + ": no time would be left with " + typed,
                "leave out the option for no limit");
}

}  // namespace onecopy::cli
