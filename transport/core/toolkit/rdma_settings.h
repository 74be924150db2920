// The section [rdma] of the configuration, which all links over RDMA devices share.
#pragma once

#include <string>
#include <vector>

#include "transport/core/base/settings.h"

namespace onecopy {

std::vector<SettingSpec> RdmaSettings();

// Whether the list `devices` of that section lets a device be used: one that is named ("mlx5_0",
// with * and ? for others), and, where none is named, any; never one that is named with a "!"
// before it.
bool AllowsDevice(const std::vector<std::string>& devices, const std::string& name);

}  // namespace onecopy
