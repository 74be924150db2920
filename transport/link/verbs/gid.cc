#include "transport/link/verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>

namespace onecopy::verbs {
namespace {

bool IsLinkLocal(const Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

int Rank(const GidEntry& entry, bool ethernet) {
  if (!ethernet) return 0;
  if (IsIpv4(entry.gid)) return 0;
  return IsLinkLocal(entry.gid) ? 2 : 1;
}

}  // namespace

bool IsIpv4(const Gid& gid) {
  static constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped.begin(), kMapped.end(), gid.begin());
}

std::string GidText(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (IsIpv4(gid)) {
    ::inet_ntop(AF_INET, gid.data() + 12, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

std::optional<GidEntry> ChooseGid(const std::vector<GidEntry>& table, bool ethernet) {
  std::optional<GidEntry> best;
  for (const GidEntry& entry : table) {
    if (ethernet && entry.type != GidType::kRoceV2) continue;
    if (!best || Rank(entry, ethernet) < Rank(*best, ethernet)) best = entry;
  }
  return best;
}

std::optional<GidEntry> ChooseGidFor(const std::vector<GidEntry>& table, const Gid& remote) {
  std::vector<GidEntry> alike = table;
  std::erase_if(alike, [&](const GidEntry& entry) { return IsIpv4(entry.gid) != IsIpv4(remote); });
  return ChooseGid(alike, true);
}

}  // namespace onecopy::verbs
