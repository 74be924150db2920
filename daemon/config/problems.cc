#include "daemon/config/problems.h"

#include "onecopy/reasons.h"

namespace onecopy::config {

Status Problems::ToStatus(const std::string& file) const {
  if (by_line_.empty()) return OkStatus();
  std::string message;
  for (const auto& [line, text] : by_line_) {
    if (!message.empty()) message += '\n';
    if (!file.empty()) message += file + ":";
    if (!file.empty() && line != 0) message += std::to_string(line) + ":";
    if (!file.empty()) message += ' ';
    message += text;
  }
  return {Code::kInvalidArgument, reasons::kBadConfig, std::move(message),
          "see every key and its default with onecopyd config default"};
}

}  // namespace onecopy::config
