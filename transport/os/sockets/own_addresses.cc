#include "transport/os/sockets/own_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::os {
namespace {

std::string TextOf(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address.sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return ::inet_ntop(address.sa_family, bytes, text.data(), text.size()) == nullptr ? ""
                                                                                    : text.data();
}

bool IsLinkLocal(const sockaddr& address) {
  if (address.sa_family == AF_INET6) {
    return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  }
  const uint32_t v4 = ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr);
  return v4 >> 16 == 0xA9FE;  // 169.254.0.0/16
}

}  // namespace

std::vector<OwnAddress> OwnAddresses() {
  std::vector<OwnAddress> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0 || IsLinkLocal(*entry->ifa_addr)) continue;
    const std::string text = TextOf(*entry->ifa_addr);
    const bool known = std::any_of(found.begin(), found.end(),
                                   [&](const OwnAddress& one) { return one.address == text; });
    if (!text.empty() && !known) found.push_back({entry->ifa_name, text});
  }
  return found;
}

Result<std::string> SourceTowards(const HostPort& where) {
  sockaddr_storage address{};
  socklen_t size = 0;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (::inet_pton(AF_INET, where.host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(where.port);
    size = sizeof v4;
  } else if (::inet_pton(AF_INET6, where.host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(where.port);
    size = sizeof v6;
  } else {
    return ErrnoStatus(EINVAL, "finding the way to " + where.host);
  }
  const UniqueFd fd(::socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return ErrnoStatus(errno, "finding the way to " + where.host);
  }
  ONECOPY_ASSIGN_OR_RETURN(const HostPort own, LocalAddress(fd.get()));
  return own.host;
}

}  // namespace onecopy::os
