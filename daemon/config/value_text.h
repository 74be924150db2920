// Inside the configuration: values as they are written in the file.
#pragma once

#include <string>

#include "transport/core/base/settings.h"

namespace onecopy::config {

// As TOML: `"30s"`, `64`, `["a", "b"]`.
std::string ValueText(SettingType type, const SettingValue& value);

// "text", "a duration such as \"30s\"": what a value of this type looks like.
std::string TypeText(SettingType type);

// "between 4KiB and 64MiB", "at least 1"; empty without bounds.
std::string BoundsText(const SettingSpec& spec);

}  // namespace onecopy::config
