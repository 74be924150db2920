#include "tests/support/scrape.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "transport/os/sockets/host_port.h"

namespace onecopy::testing {
namespace {

// The labels of `{a="b",c="d"}`, from after the brace on; leaves `at` after the closing one.
Scrape::Labels ParseLabels(const std::string& line, size_t& at) {
  Scrape::Labels labels;
  while (line.at(at) != '}') {
    const size_t equals = line.find('=', at);
    const std::string name = line.substr(at, equals - at);
    std::string value;
    for (at = equals + 2; line.at(at) != '"'; ++at) {
      if (line.at(at) == '\\') ++at;
      value += line.at(at);
    }
    labels[name] = value;
    ++at;
    if (line.at(at) == ',') ++at;
  }
  ++at;
  return labels;
}

// Of a histogram's or a summary's series, the family's name.
std::string FamilyOf(const std::string& name, const std::map<std::string, Scrape::Family>& known) {
  for (const std::string suffix : {"", "_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string family = name.substr(0, name.size() - suffix.size());
    if (known.contains(family)) return family;
  }
  throw std::runtime_error("a series without a family: " + name);
}

}  // namespace

Scrape::Scrape(std::string text) : text_(std::move(text)) {
  std::istringstream lines(text_);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    std::istringstream words(line);
    std::string hash;
    std::string what;
    std::string name;
    words >> hash;
    if (hash == "#") {
      words >> what >> name;
      if (what == "TYPE") words >> families_[name].type;
      if (what == "HELP") families_[name].has_help = true;
      continue;
    }
    Series series;
    size_t at = line.find_first_of("{ ");
    series.name = line.substr(0, at);
    if (line[at] == '{') series.labels = ParseLabels(line, ++at);
    series.value = std::strtod(line.c_str() + at, nullptr);
    Family& family = families_.at(FamilyOf(series.name, families_));
    for (const auto& [label, value] : series.labels) {
      if (label != "le") family.labels.insert(label);
    }
    series_.push_back(std::move(series));
  }
}

bool Scrape::Series::Fits(const std::string& of, const Labels& wanted) const {
  return name == of && std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
           const auto found = labels.find(label.first);
           return found != labels.end() && found->second == label.second;
         });
}

double Scrape::Sum(const std::string& name, const Labels& labels) const {
  double sum = 0;
  for (const Series& series : series_) sum += series.Fits(name, labels) ? series.value : 0;
  return sum;
}

bool Scrape::Has(const std::string& name, const Labels& labels) const {
  return std::any_of(series_.begin(), series_.end(),
                     [&](const Series& series) { return series.Fits(name, labels); });
}

os::UniqueFd Dial(const std::string& address, int receive_buffer) {
  Result<os::HostPort> where = os::ParseHostPort(address);
  if (!where.ok()) throw std::runtime_error(where.status().ToString());
  const bool v6 = where->host.find(':') != std::string::npos;
  os::UniqueFd socket(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (receive_buffer > 0) {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  sockaddr_in to4{};
  to4.sin_family = AF_INET;
  to4.sin_port = htons(where->port);
  to4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 to6{};
  to6.sin6_family = AF_INET6;
  to6.sin6_port = htons(where->port);
  to6.sin6_addr = in6addr_loopback;
  const auto* to =
      v6 ? reinterpret_cast<const sockaddr*>(&to6) : reinterpret_cast<const sockaddr*>(&to4);
  if (::connect(socket.get(), to, v6 ? sizeof to6 : sizeof to4) != 0) {
    throw std::runtime_error("nobody listens at " + address);
  }
  return socket;
}

void Send(int socket, const std::string& text) {
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t some = ::send(socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (some <= 0) return;  // it has been refused meanwhile, which the answer says
    sent += static_cast<size_t>(some);
  }
}

std::string ReadToEnd(int socket) {
  constexpr int kMinuteMs = 60'000;
  std::string all;
  while (true) {
    pollfd wanted = {socket, POLLIN, 0};
    if (::poll(&wanted, 1, kMinuteMs) != 1) return all;
    char some[16'384];
    const ssize_t got = ::recv(socket, some, sizeof some, 0);
    if (got <= 0) return all;
    all.append(some, static_cast<size_t>(got));
  }
}

std::string Ask(const std::string& address, const std::string& request) {
  const os::UniqueFd socket = Dial(address);
  Send(socket.get(), request);
  return ReadToEnd(socket.get());
}

Scrape ScrapeOf(const std::string& address) {
  const std::string answer = Ask(address, kGetMetrics);
  const size_t head = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.1 200 ") || head == std::string::npos) {
    throw std::runtime_error("no metrics at " + address + ": " + answer.substr(0, 200));
  }
  return Scrape(answer.substr(head + 4));
}

}  // namespace onecopy::testing
