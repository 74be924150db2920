// Addresses of RDMA ports.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace onecopy::verbs {

using Gid = std::array<uint8_t, 16>;

enum class GidType { kInfiniBand, kRoceV1, kRoceV2 };

struct GidEntry {
  int index = 0;
  Gid gid{};
  GidType type = GidType::kRoceV2;

  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

// An IPv4 address as such ("10.77.0.1"), any other as IPv6.
std::string GidText(const Gid& gid);

bool IsIpv4(const Gid& gid);

// The entry to use of a port's table. On Ethernet the RoCE v2 ones of IPv4 addresses come first,
// then those of IPv6 addresses, link-local ones last; of equals the first. On InfiniBand the first.
// Nothing where there is none.
std::optional<GidEntry> ChooseGid(const std::vector<GidEntry>& table, bool ethernet);
// The same of those that can reach `remote` over Ethernet: an address of IPv4 reaches no other.
std::optional<GidEntry> ChooseGidFor(const std::vector<GidEntry>& table, const Gid& remote);

}  // namespace onecopy::verbs
