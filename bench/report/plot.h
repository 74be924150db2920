// Drawings of figures, as SVG that stands in an HTML page.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace onecopy::bench {

struct PlotPoint {
  double x = 0;
  double y = 0;
  std::string label = {};  // beside it; empty: none
};

struct PlotSeries {
  std::string name;  // in the legend
  std::vector<PlotPoint> points = {};
};

enum class Scale {
  kLinear,   // from 0 on
  kBinary,   // logarithmic, with marks at powers of two
  kDecimal,  // logarithmic, with marks at 1, 2 and 5 times powers of ten
};

struct PlotAxis {
  std::string title;
  Scale scale = Scale::kLinear;
  std::function<std::string(double)> text;  // of a mark
};

struct Plot {
  std::string title;  // for those who cannot see it, too
  PlotAxis x;
  PlotAxis y;
  std::vector<PlotSeries> series = {};
  std::optional<double> line = {};  // a level of y to compare with
  bool joined = true;               // points of a series, by a line
};

// One <figure> with title, drawing and legend. Points that a logarithmic scale cannot show (0 and
// less) are left out; empty where no point is left.
std::string ToFigure(const Plot& plot);

}  // namespace onecopy::bench
