#include "daemon/metrics/answers.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "daemon/status/page.h"

namespace onecopy::metrics {
namespace {

constexpr unsigned kNotFound = 404;
constexpr unsigned kMethodNotAllowed = 405;
constexpr unsigned kMisdirected = 421;

bool IsPort(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool IsLocalhost(std::string_view name) {
  constexpr std::string_view kName = "localhost";
  return std::equal(name.begin(), name.end(), kName.begin(), kName.end(),
                    [](unsigned char a, char b) { return std::tolower(a) == b; });
}

}  // namespace

bool NamesLoopback(std::string_view host) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos && !IsPort(host.substr(colon + 1))) return false;
  const std::string name(host.substr(0, colon));
  if (IsLocalhost(name) || name == "[::1]") return true;
  in_addr address{};
  constexpr uint32_t kLoopbackNet = 127;
  return ::inet_pton(AF_INET, name.c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> 24 == kLoopbackNet;
}

Wanted WantedBy(const Asked& asked, bool tls) {
  const auto answer = [](Answer is) { return Wanted{Wanted::What::kAnswer, std::move(is)}; };
  if (!tls && !NamesLoopback(asked.host)) {
    return answer({kMisdirected,
                   "The Host header of this request does not name this machine's loopback: ask for "
                   "http://127.0.0.1:PORT/\n"});
  }
  if (asked.method != "GET") return answer({kMethodNotAllowed, "only GET is served\n"});
  const std::string path = asked.target.substr(0, asked.target.find('?'));
  if (path == "/metrics") return {Wanted::What::kMetrics};
  if (path == "/status.json") return {Wanted::What::kStatus};
  if (path == "/" || path == "/status") {
    const status::Page& page = status::StatusPage();
    return answer({200, page.text, "text/html; charset=utf-8", page.policy});
  }
  return answer({kNotFound, "see / for the status of this node, and /metrics for its metrics\n"});
}

}  // namespace onecopy::metrics
