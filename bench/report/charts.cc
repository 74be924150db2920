#include "bench/report/parts.h"

#include <algorithm>
#include <functional>
#include <map>

#include "bench/measure/row_table.h"
#include "bench/measure/statistics.h"
#include "bench/report/plot.h"
#include "bench/report/text.h"
#include "onecopy/size.h"

namespace onecopy::bench {
namespace {

constexpr std::string_view kCpu = "cpu ";
constexpr std::string_view kDirectToStaged = "direct to staged, ";
constexpr const char* kCopies = "copies";

using Wanted = std::function<bool(const Row&)>;
using Value = std::function<double(const Row&)>;

bool Begins(const std::string& text, std::string_view with) { return text.rfind(with, 0) == 0; }

// A rate of a path of ours, rather than of a ceiling, a competitor or a comparison of paths.
bool IsRate(const Row& row) {
  return row.unit == Unit::kBytesPerSecond && row.details.count(kCopies) > 0 &&
         !row.values.empty() && !Begins(row.work, kDirectToStaged);
}

bool InNode(const Row& row) { return Begins(row.path, "local") || Begins(row.path, "peer"); }

double Median(const Row& row) { return Summarise(row.values).median; }
double Ratio(const Row& row) { return row.ratio().value_or(0); }

PlotAxis SizeAxis() {
  return {"payload", Scale::kBinary, [](double bytes) { return ValueText(Unit::kBytes, bytes); }};
}

PlotAxis RateAxis() {
  return {"median rate", Scale::kDecimal, [](double rate) { return FormatRate(rate); }};
}

PlotAxis RatioAxis(std::string title) {
  return {std::move(title), Scale::kDecimal, [](double ratio) { return Short(ratio); }};
}

PlotAxis CopiesAxis() {
  return {"copies of the payload", Scale::kLinear, [](double copies) { return Short(copies); }};
}

// One series for each work, path and ceiling, over the payload; in the order in which they came.
Plot OverSize(std::string title, PlotAxis y, const std::vector<Row>& rows, const Wanted& wanted,
              const Value& value, bool name_ceilings) {
  Plot plot{.title = std::move(title), .x = SizeAxis(), .y = std::move(y)};
  std::map<std::string, std::map<uint64_t, double>> points;
  std::vector<std::string> order;
  for (const Row& row : rows) {
    if (!wanted(row)) continue;
    std::string name = row.work + " (" + row.path;
    if (name_ceilings) name += " ÷ " + row.ceiling;
    name += ")";
    if (points.count(name) == 0) order.push_back(name);
    points[name][row.bytes] = value(row);
  }
  for (const std::string& name : order) {
    PlotSeries series{name, {}};
    for (const auto& [bytes, y_value] : points[name]) {
      series.points.push_back({static_cast<double>(bytes), y_value});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

std::string RatesOver(const std::vector<Row>& rows, bool in_node) {
  const std::string where = in_node ? "inside a node" : "between nodes";
  const Wanted rate = [in_node](const Row& row) { return IsRate(row) && InNode(row) == in_node; };
  const Wanted held = [rate](const Row& row) { return rate(row) && row.ratio().has_value(); };
  Plot ratios = OverSize("Share of the ceiling " + where, RatioAxis("ratio to the ceiling"), rows,
                         held, Ratio, true);
  ratios.line = 1;
  return ToFigure(
             OverSize("Bandwidth over size, " + where, RateAxis(), rows, rate, Median, false)) +
         ToFigure(ratios);
}

// The copies that a path took, by work, path and payload: rows of costs do not tell them.
std::map<std::string, double> CopiesByWay(const std::vector<Row>& rows) {
  std::map<std::string, double> copies;
  for (const Row& row : rows) {
    if (IsRate(row)) copies[row.work + row.path] = row.details.at(kCopies);
  }
  return copies;
}

// The largest payload of each work, which is where copies count.
std::vector<Row> Largest(const std::vector<Row>& rows) {
  std::map<std::string, Row> largest;
  for (const Row& row : rows) {
    if (!IsRate(row)) continue;
    Row& most = largest[row.work + row.path];
    if (row.bytes >= most.bytes) most = row;
  }
  std::vector<Row> list;
  for (auto& [name, row] : largest) list.push_back(std::move(row));
  return list;
}

// Points of one path are one series.
Plot OverCopies(std::string title, PlotAxis y, const std::vector<Row>& rows,
                const std::map<std::string, double>& copies, const Value& value) {
  Plot plot{.title = std::move(title), .x = CopiesAxis(), .y = std::move(y), .joined = false};
  std::map<std::string, PlotSeries> by_path;
  for (const Row& row : rows) {
    const std::string work = Begins(row.work, kCpu) ? row.work.substr(kCpu.size()) : row.work;
    const auto found = copies.find(work + row.path);
    if (found == copies.end()) continue;
    PlotSeries& series = by_path[row.path];
    series.name = row.path;
    series.points.push_back({found->second, value(row), {}});
  }
  for (auto& [path, series] : by_path) plot.series.push_back(std::move(series));
  return plot;
}

}  // namespace

std::string ChartsOf(const std::vector<Row>& rows) {
  const auto direct = [](const Row& row) {
    return Begins(row.work, kDirectToStaged) && row.ratio().has_value();
  };
  Plot against = OverSize("Direct ÷ staged", RatioAxis("times as fast"), rows, direct, Ratio, true);
  against.line = 1;
  const std::map<std::string, double> copies = CopiesByWay(rows);
  std::vector<Row> cpu;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(cpu), [](const Row& row) {
    return row.unit == Unit::kSecondsPerGigabyte && !row.values.empty();
  });
  const PlotAxis cost{"CPU seconds per GB", Scale::kLinear,
                      [](double seconds) { return Short(seconds); }};
  return RatesOver(rows, false) + RatesOver(rows, true) + ToFigure(against) +
         ToFigure(OverCopies("Copies against bandwidth, largest payload", RateAxis(), Largest(rows),
                             copies, Median)) +
         ToFigure(OverCopies("Copies against the daemons' CPU time, largest payload", cost, cpu,
                             copies, Median));
}

}  // namespace onecopy::bench
