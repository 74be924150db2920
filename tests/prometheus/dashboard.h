// A dashboard of Grafana's, as a file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace onecopy::testing {

struct DashboardQuery {
  std::string panel;
  std::string expression;  // with every variable replaced by all of its values
};

struct DashboardVariable {
  std::string metric;
  std::string label;
};

class Dashboard {
 public:
  explicit Dashboard(const std::string& file);

  std::vector<DashboardQuery> Queries() const;
  // Those that Prometheus is asked for the values of.
  std::vector<DashboardVariable> Variables() const;
  // What of it Grafana could not show, in words; empty: nothing.
  std::vector<std::string> Faults() const;

 private:
  nlohmann::json document_;
};

}  // namespace onecopy::testing
