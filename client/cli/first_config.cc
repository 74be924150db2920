#include "client/cli/first_config.h"

#include <map>
#include <set>

#include "client/cli/output/document.h"
#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "transport/core/base/name.h"

namespace onecopy::cli {
namespace {

// A basic string of TOML is written like one of JSON.
std::string Toml(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status BadName(const std::string& name) {
  return {Code::kInvalidArgument, reasons::kBadName, Quote(name) + " is not a node's name",
          "a node's name is of the form " + std::string(kNameSyntax)};
}

}  // namespace

std::string FirstConfig::ToToml() const {
  std::string text =
      "# Written by `onecopy init`. `onecopyd config default` prints every setting with its "
      "meaning.\nversion = 1\nname = " +
      Toml(name) + "\nlisten = " + Toml(listen.ToString()) + "\n";
  if (!uid_domain.empty()) text += "uid_domain = " + Toml(uid_domain) + "\n";
  if (insecure) text += "insecure = true\n";
  if (!tls_folder.empty()) {
    text += "\n[tls]\nca = " + Toml(tls_folder + "/ca.pem") +
            "\ncertificate = " + Toml(certificate()) + "\nkey = " + Toml(key()) + "\n";
  }
  for (const NodeAddress& peer : peers) {
    text += "\n[peers." + Toml(peer.node) + "]\naddress = " + Toml(peer.address.ToString()) + "\n";
    if (!uid_domain.empty()) text += "uid_domain = " + Toml(uid_domain) + "\n";
  }
  return text;
}

FirstConfig FirstConfig::OfPeer(const NodeAddress& peer) const {
  FirstConfig other = *this;
  other.name = peer.node;
  other.listen = peer.address;
  other.peers = {{name, listen}};
  for (const NodeAddress& each : peers) {
    if (each != peer) other.peers.push_back(each);
  }
  return other;
}

Result<NodeAddress> ParseNodeAddress(const std::string& typed) {
  const size_t at = typed.find('=');
  if (at == std::string::npos) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  Quote(typed) + " is not a peer with its address",
                  "write NAME=HOST:PORT, such as west=10.0.0.2:7701");
  }
  const std::string node = typed.substr(0, at);
  if (!IsName(node)) return BadName(node);
  ONECOPY_ASSIGN_OR_RETURN(os::HostPort address, os::ParseHostPort(typed.substr(at + 1)));
  if (address.port == 0 || address.host.empty()) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  Quote(typed) + " has no host or no port", "write NAME=HOST:PORT");
  }
  return NodeAddress{node, std::move(address)};
}

Status CheckNodes(const FirstConfig& config) {
  if (!IsName(config.name)) return BadName(config.name);
  std::set<std::string> names{config.name};
  std::map<std::string, std::string> addresses{{config.listen.ToString(), config.name}};
  for (const NodeAddress& peer : config.peers) {
    if (!names.insert(peer.node).second) {
      return {Code::kInvalidArgument, reasons::kBadName, "two nodes are called " + Quote(peer.node),
              "give each node a name of its own"};
    }
    const auto [known, is_new] = addresses.emplace(peer.address.ToString(), peer.node);
    if (!is_new) {
      return {Code::kInvalidArgument, reasons::kBadArgument,
              "nodes " + known->second + " and " + peer.node + " have the same address, " +
                  known->first,
              "give each node an address of its own"};
    }
  }
  return OkStatus();
}

}  // namespace onecopy::cli
