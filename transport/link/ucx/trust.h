// With whom this node talks UCX. Whoever reaches a UCX worker can write any memory of its process,
// and UCX takes addresses and keys apart without knowing their length: so nothing that a peer sent
// gets as far as UCX unless this rule lets it.
#pragma once

#include <string>
#include <vector>

#include "transport/core/result.h"

namespace onecopy::ucx {

// What the node's configuration says about peers.
struct TrustSettings {
  std::vector<std::string> trusted;  // [ucx] trust
  bool authenticated = false;        // peers show certificates: their names are theirs
  bool loopback_only = false;        // peers are other daemons of this machine
};

// How a peer's worker address may come.
enum class AddressSource {
  kMessage,   // in the offer or answer itself: the peer is trusted by name
  kSameUser,  // in a sealed file of a process of this machine and of this user, which could as well
              // write to this process's memory by itself
};

// PERMISSION_DENIED for a peer that this node does not talk UCX with.
Result<AddressSource> Judge(const TrustSettings& settings, const std::string& peer);

// Why this node talks UCX with nobody; OK where somebody is allowed.
Status CheckTrustSettings(const TrustSettings& settings);

}  // namespace onecopy::ucx
