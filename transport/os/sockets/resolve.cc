#include "transport/os/sockets/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>

#include "onecopy/reasons.h"

namespace onecopy::os {

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  // What follows a % is the device of an IPv6 address.
  return ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), address.data()) == 1;
}

Result<std::vector<HostPort>> Resolve(const HostPort& where) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(where.host.c_str(), nullptr, &hints, &list); error != 0) {
    return Status(Code::kNotFound, reasons::kBadEndpoint,
                  "host \"" + where.host + "\": " + ::gai_strerror(error));
  }
  std::vector<HostPort> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      found.push_back({text.data(), where.port});
    }
  }
  ::freeaddrinfo(list);
  return found;
}

}  // namespace onecopy::os
