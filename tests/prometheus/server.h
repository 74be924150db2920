// A real Prometheus, of the distribution's package, while a test goes on.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace onecopy::testing {

class PrometheusServer {
 public:
  // Whether the programs prometheus and promtool are installed.
  static bool IsInstalled();

  // With this configuration; waits until it serves.
  explicit PrometheusServer(const std::string& configuration);

  // "data" of an answer of its HTTP API, as of "/api/v1/rules"; throws if it failed.
  nlohmann::json Get(const std::string& path) const;
  // The samples that an expression gives now.
  nlohmann::json Query(const std::string& expression) const;

  static std::string Escaped(const std::string& text);  // for a URL

 private:
  TempFolder folder_;
  std::string address_;
  std::optional<Process> process_;
};

}  // namespace onecopy::testing
