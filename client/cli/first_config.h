// The first configuration of a node, as `onecopy init` writes it.
#pragma once

#include <string>
#include <vector>

#include "onecopy/result.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::cli {

struct NodeAddress {
  std::string node;
  os::HostPort address;

  friend bool operator==(const NodeAddress&, const NodeAddress&) = default;
};

struct FirstConfig {
  std::string name;
  os::HostPort listen;
  std::string uid_domain;  // empty: none
  bool insecure = false;   // no certificates, although it listens beyond loopback
  std::string tls_folder;  // of ca.pem, NAME.pem and NAME.key; empty: no [tls]
  std::vector<NodeAddress> peers;

  std::string certificate() const { return tls_folder + "/" + name + ".pem"; }
  std::string key() const { return tls_folder + "/" + name + ".key"; }

  // The file's text.
  std::string ToToml() const;
  // That of one of its peers, whose files lie in a folder of the same name on its machine: it has
  // this node and the other peers as its own.
  FirstConfig OfPeer(const NodeAddress& peer) const;
};

// "west=10.0.0.2:7701". INVALID_ARGUMENT (BAD_NAME, BAD_ARGUMENT).
Result<NodeAddress> ParseNodeAddress(const std::string& typed);

// INVALID_ARGUMENT (BAD_NAME, BAD_ARGUMENT) for a node that is named twice, or is its own peer, and
// for an address that two of them have.
Status CheckNodes(const FirstConfig& config);

}  // namespace onecopy::cli
