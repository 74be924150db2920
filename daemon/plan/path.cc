#include "daemon/plan/path.h"

#include <array>
#include <ctime>

namespace onecopy::plan {

std::string TextOf(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  std::array<char, 64> text{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return {};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string BasisOf(const Plan& plan) {
  if (!plan.measured) return "estimated";
  const bool dated = plan.measure_time != std::chrono::system_clock::time_point();
  const std::string when = dated ? TextOf(plan.measure_time) : std::string();
  if (plan.measured_transfers == 0) return "measured by a probe" + (dated ? ", " + when : when);
  if (plan.measured_transfers == 1) return "measured by 1 transfer" + (dated ? ", " + when : when);
  return "measured by " + std::to_string(plan.measured_transfers) + " transfers" +
         (dated ? ", the last " + when : when);
}

}  // namespace onecopy::plan
