// A small authority for people without one: keys, its certificate, certificates of nodes and users,
// and the list of those that count no more. Everything as PEM text; files are the caller's.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/tls/certificate.h"

namespace onecopy::tls {

struct Issued {
  std::string certificate;
  std::string key;  // a secret
};

// An authority of its own: a P-256 key, and a certificate that signs nodes' and nothing below.
Result<Issued> MakeAuthority(const std::string& name, std::chrono::hours valid_for);

// A node's: for DNS:node and URI:onecopy://node, as a server and a client. The certificate ends no
// later than its authority's. INVALID_ARGUMENT where `authority` is none, or not with that key.
Result<Issued> IssueForNode(const Issued& authority, const std::string& node,
                            std::chrono::hours valid_for);

// A user's, as a client and nothing else: for URI:onecopy://user/UID@NODE of each of `nodes`.
Result<Issued> IssueForUser(const Issued& authority, uint32_t uid,
                            const std::vector<std::string>& nodes, std::chrono::hours valid_for);

// A list of revoked certificates of that authority: those of `list` (may be empty) and `revoked`.
// INVALID_ARGUMENT for a certificate of another's.
Result<std::string> Revoke(const Issued& authority, std::string_view list, const Chain& revoked,
                           std::chrono::hours valid_for);

}  // namespace onecopy::tls
