// With which nodes this one talks UCX. A program that reaches a UCX worker can write any memory of
// its process,
// and UCX takes addresses and keys apart without knowing their length: so nothing that a peer sent
// gets as far as UCX unless this rule lets it.
#pragma once

#include <string>
#include <vector>

namespace onecopy::ucx {

// What the node's configuration says about peers.
struct TrustSettings {
  std::vector<std::string> trusted;  // [ucx] trust
  bool authenticated = false;        // peers show certificates: their names are theirs
};

// From where a peer's worker address is taken.
enum class AddressSource {
  kMessage,   // from the offer or answer itself: the peer is trusted by name
  kSameUser,  // from a sealed file of a process of this machine and of this user, which could as
              // well write to this process's memory by itself; nowhere else
};

AddressSource SourceFor(const TrustSettings& settings, const std::string& peer);

// Whether any node on another machine is trusted; if not, nothing may listen to the network.
bool TrustsAnyone(const TrustSettings& settings);

}  // namespace onecopy::ucx
