#include "tests/prometheus/server.h"

#include <array>
#include <cctype>
#include <cstdio>
#include <stdexcept>

#include "tests/support/node.h"
#include "tests/support/scrape.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::testing {
namespace {

// Free now: Prometheus cannot say which port it chose.
std::string FreeAddress() {
  const auto socket = os::ListenTcp({"127.0.0.1", 0}, 1);
  if (!socket.ok()) throw std::runtime_error(socket.status().ToString());
  return os::LocalAddress(socket->get())->ToString();
}

}  // namespace

bool PrometheusServer::IsInstalled() {
  return RunCommand("/bin/sh", {"-c", "command -v prometheus && command -v promtool"})
             .exit_status == 0;
}

PrometheusServer::PrometheusServer(const std::string& configuration) : address_(FreeAddress()) {
  WriteFile(folder_ / "prometheus.yml", configuration);
  process_.emplace(
      ProcessOptions{.program = "/bin/sh",
                     .arguments = {"-c", "exec prometheus \"$@\"", "prometheus",
                                   "--config.file=" + folder_ / "prometheus.yml",
                                   "--storage.tsdb.path=" + folder_ / "data",
                                   "--web.listen-address=" + address_, "--log.level=warn"},
                     .error_file = folder_ / "log"});
  WaitUntil("Prometheus serves", [&] {
    try {
      return Ask(address_, "GET /-/ready HTTP/1.0\r\n\r\n").find(" 200 ") != std::string::npos;
    } catch (const std::runtime_error&) {  // it does not listen yet
      return false;
    }
  });
}

nlohmann::json PrometheusServer::Get(const std::string& path) const {
  const std::string answer = Ask(address_, "GET " + path + " HTTP/1.0\r\n\r\n");
  const size_t head = answer.find("\r\n\r\n");
  const nlohmann::json document =
      head == std::string::npos ? nlohmann::json()
                                : nlohmann::json::parse(answer.substr(head + 4), nullptr, false);
  if (!document.is_object() || document.value("status", "") != "success") {
    throw std::runtime_error(path + ": " + answer);
  }
  return document.at("data");
}

nlohmann::json PrometheusServer::Query(const std::string& expression) const {
  return Get("/api/v1/query?query=" + Escaped(expression)).at("result");
}

std::string PrometheusServer::Escaped(const std::string& text) {
  std::string escaped;
  for (const unsigned char c : text) {
    if (std::isalnum(c) != 0) {
      escaped += static_cast<char>(c);
      continue;
    }
    std::array<char, 4> code{};
    std::snprintf(code.data(), code.size(), "%%%02X", c);
    escaped += code.data();
  }
  return escaped;
}

}  // namespace onecopy::testing
