#include "tests/prometheus/dashboard.h"

#include <regex>
#include <set>

#include "tests/support/process.h"

namespace onecopy::testing {
namespace {

using Json = nlohmann::json;

constexpr int kColumns = 24;  // of Grafana's grid

std::string WithoutVariables(std::string expression) {
  for (const auto& [variable, value] :
       {std::pair("\\$__rate_interval", "1m"), {"\\$__range", "1m"}, {"\\$(node|path)\\b", ".*"}}) {
    expression = std::regex_replace(expression, std::regex(variable), value);
  }
  return expression;
}

}  // namespace

Dashboard::Dashboard(const std::string& file) : document_(Json::parse(ReadFile(file))) {}

std::vector<DashboardQuery> Dashboard::Queries() const {
  std::vector<DashboardQuery> all;
  for (const Json& panel : document_.at("panels")) {
    for (const Json& target : panel.value("targets", Json::array())) {
      all.push_back({panel.at("title"), WithoutVariables(target.at("expr"))});
    }
  }
  for (const Json& annotation : document_.at("annotations").at("list")) {
    all.push_back({annotation.at("name"), WithoutVariables(annotation.at("expr"))});
  }
  return all;
}

std::vector<DashboardVariable> Dashboard::Variables() const {
  std::vector<DashboardVariable> all;
  const std::regex form(R"(label_values\((\w+), (\w+)\))");
  for (const Json& variable : document_.at("templating").at("list")) {
    if (variable.at("type") != "query") continue;
    const std::string query = variable.at("query").at("query");
    std::smatch found;
    if (!std::regex_match(query, found, form)) throw std::runtime_error("a variable: " + query);
    all.push_back({found[1], found[2]});
  }
  return all;
}

std::vector<std::string> Dashboard::Faults() const {
  std::vector<std::string> faults;
  const std::set<std::string> kinds = {"row", "stat", "table", "timeseries"};
  std::set<int> numbers;
  std::set<std::pair<int, int>> taken;
  for (const char* key : {"title", "uid", "schemaVersion", "time", "templating", "panels"}) {
    if (!document_.contains(key)) faults.push_back(std::string("it has no ") + key);
  }
  for (const Json& panel : document_.at("panels")) {
    const std::string title = panel.at("title");
    const auto fault = [&](const std::string& what) { faults.push_back(title + ": " + what); };
    const Json& place = panel.at("gridPos");
    const int left = place.at("x");
    const int width = place.at("w");
    if (!numbers.insert(panel.at("id").get<int>()).second) fault("its number is another panel's");
    if (!kinds.contains(panel.at("type").get<std::string>())) fault("is of an unknown kind");
    if (left < 0 || left + width > kColumns) fault("leaves the grid");
    for (int x = left; x < left + width; ++x) {
      for (int y = place.at("y"); y < place.at("y").get<int>() + place.at("h").get<int>(); ++y) {
        if (!taken.insert({x, y}).second) fault("lies on another panel");
      }
    }
    if (panel.at("type") == "row") continue;
    if (panel.value("description", "").empty()) fault("has no description");
    if (panel.value("targets", Json::array()).empty()) fault("asks for nothing");
    std::set<std::string> references;
    for (const Json& target : panel.value("targets", Json::array())) {
      if (!references.insert(target.at("refId").get<std::string>()).second)
        fault("two queries have one name");
      if (target.at("datasource").at("uid") != "${datasource}") fault("names a data source");
    }
  }
  return faults;
}

}  // namespace onecopy::testing
