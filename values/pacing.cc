#include "onecopy/pacing.h"

#include <array>
#include <cstddef>

namespace onecopy {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"low", "normal", "high"};

}  // namespace

std::string_view NameOf(Priority priority) { return kNames[static_cast<size_t>(priority)]; }

std::optional<Priority> ParsePriority(std::string_view text) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (text == kNames[i]) return static_cast<Priority>(i);
  }
  return std::nullopt;
}

}  // namespace onecopy
