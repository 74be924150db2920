#include "transport/core/toolkit/rdma_settings.h"

#include "transport/core/base/glob.h"

namespace onecopy {
std::vector<SettingSpec> RdmaSettings() {
  return {
      {.key = "devices",
       .type = SettingType::kTextList,
       .fallback = std::vector<std::string>(),
       .doc = "RDMA devices to use, as \"mlx5_0\" or \"mlx5_*\"; \"!mlx5_bond_0\" excludes one. "
              "Empty: all."},
      {.key = "gid_index",
       .type = SettingType::kInteger,
       .fallback = int64_t{-1},
       .doc = "Entry of a port's GID table; -1: the RoCE v2 one of an address of this machine, "
              "link-local last.",
       .least = -1,
       .most = 255},
      {.key = "pkey",
       .type = SettingType::kInteger,
       .fallback = int64_t{0xffff},
       .doc = "Partition key (InfiniBand); 0xffff is the default partition.",
       .least = 0,
       .most = 0xffff},
      {.key = "traffic_class",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "Traffic class of packets (RoCE: the DSCP is its upper six bits).",
       .least = 0,
       .most = 255},
      {.key = "service_level",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "InfiniBand service level, or RoCE priority.",
       .least = 0,
       .most = 15},
      {.key = "path_mtu",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "Largest packet payload in bytes: 256, 512, 1024, 2048 or 4096; 0: the smaller of "
              "both ports'.",
       .least = 0,
       .most = 4096},
  };
}

bool AllowsDevice(const std::vector<std::string>& devices, const std::string& name) {
  bool any_named = false;
  bool named = false;
  for (const std::string& entry : devices) {
    if (!entry.empty() && entry.front() == '!') {
      if (MatchesGlob(std::string_view(entry).substr(1), name)) return false;
      continue;
    }
    any_named = true;
    named |= MatchesGlob(entry, name);
  }
  return named || !any_named;
}

}  // namespace onecopy
