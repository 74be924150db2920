#include "daemon/rpc/identity/peer_address.h"

#include <string_view>

#include "onecopy/reasons.h"

namespace onecopy::rpc {
namespace {

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// What is no proper escape stays as it is.
std::string PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool room = text[i] == '%' && i + 2 < text.size();
    const int high = room ? DigitOf(text[i + 1]) : -1;
    const int low = room ? DigitOf(text[i + 2]) : -1;
    if (high >= 0 && low >= 0) {
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

constexpr std::string_view kMappedIpv4 = "::ffff:";

}  // namespace

Result<os::HostPort> ParsePeerUri(const std::string& uri) {
  const std::string decoded = PercentDecode(uri);
  const std::string_view text = decoded;
  if (!text.starts_with("ipv4:") && !text.starts_with("ipv6:")) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "\"" + uri + "\" is not an IP address");
  }
  ONECOPY_ASSIGN_OR_RETURN(os::HostPort address, os::ParseHostPort(text.substr(5)));
  if (address.host.starts_with(kMappedIpv4) && address.host.find('.') != std::string::npos) {
    address.host.erase(0, kMappedIpv4.size());
  }
  return address;
}

std::string CompleteAddress(const std::string& address, const std::string& seen_uri) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return address;
  const std::string_view host = std::string_view(address).substr(0, colon);
  if (!host.empty() && host != "0.0.0.0" && host != "[::]") return address;
  const Result<os::HostPort> port = os::ParseHostPort("0.0.0.0" + address.substr(colon));
  const Result<os::HostPort> seen = ParsePeerUri(seen_uri);
  if (!port.ok() || !seen.ok()) return address;
  return os::HostPort{seen->host, port->port}.ToString();
}

}  // namespace onecopy::rpc
