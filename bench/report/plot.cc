#include "bench/report/plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/report/text.h"

namespace onecopy::bench {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 380;
constexpr double kLeft = 92;
constexpr double kRight = 24;
constexpr double kTop = 14;
constexpr double kBottom = 56;
constexpr double kMark = 4.5;  // half the size of a point
constexpr size_t kMaxTicks = 9;

// Dark enough on white, and told apart by those who see fewer colours; shapes and dashes help.
constexpr std::array kColours = {"#0060a8", "#c24a00", "#007a52", "#a8327e",
                                 "#5a5a5a", "#8a6d00", "#5b2ca0", "#a11212"};
constexpr std::array kDashes = {"", "7 4", "2 3"};

struct Look {
  std::string colour;
  std::string dash;
  size_t shape = 0;
};

Look LookOf(size_t index) {
  return {kColours[index % kColours.size()], kDashes[index / kColours.size() % kDashes.size()],
          index % 4};
}

bool IsLog(Scale scale) { return scale != Scale::kLinear; }

// An axis from the least to the largest value, and where on the page a value is.
class Ruler {
 public:
  Ruler(const PlotAxis& axis, double least, double most, double from, double to)
      : axis_(axis), from_(from), to_(to) {
    switch (axis.scale) {
      case Scale::kLinear:
        low_ = 0;
        step_ = StepFor(most > 0 ? most : 1);
        high_ = std::ceil((most > 0 ? most : 1) * 1.02 / step_) * step_;
        break;
      case Scale::kBinary:
        low_ = std::floor(std::log2(least));
        high_ = std::max(std::ceil(std::log2(most)), low_ + 1);
        break;
      case Scale::kDecimal:
        low_ = std::log10(least) - 0.08;
        high_ = std::log10(most) + 0.08;
        break;
    }
  }

  double At(double value) const {
    const double place = axis_.scale == Scale::kBinary    ? std::log2(value)
                         : axis_.scale == Scale::kDecimal ? std::log10(value)
                                                          : value;
    return from_ + (place - low_) / (high_ - low_) * (to_ - from_);
  }

  std::vector<double> Ticks() const {
    std::vector<double> ticks;
    if (axis_.scale == Scale::kLinear) {
      for (double at = 0; at <= high_ * 1.001; at += step_) ticks.push_back(at);
    } else if (axis_.scale == Scale::kBinary) {
      const double stride = std::ceil((high_ - low_) / (kMaxTicks - 1));
      for (double at = low_; at <= high_; at += stride) ticks.push_back(std::exp2(at));
    } else {
      for (const auto& mantissas :
           {std::vector<double>{1, 2, 5}, std::vector<double>{1, 3}, std::vector<double>{1}}) {
        ticks.clear();
        for (double power = std::floor(low_); power <= high_; ++power) {
          for (const double mantissa : mantissas) {
            const double at = std::log10(mantissa) + power;
            if (at >= low_ && at <= high_) ticks.push_back(mantissa * std::pow(10, power));
          }
        }
        if (ticks.size() <= kMaxTicks) break;
      }
    }
    return ticks;
  }

 private:
  static double StepFor(double most) {
    const double rough = most / 5;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    for (const double mantissa : {1.0, 2.0, 5.0}) {
      if (mantissa * power >= rough) return mantissa * power;
    }
    return 10 * power;
  }

  const PlotAxis& axis_;
  const double from_;
  const double to_;
  double low_ = 0;
  double high_ = 1;
  double step_ = 1;
};

std::string Line(double x1, double y1, double x2, double y2, const char* kind) {
  return "<line class=\"" + std::string(kind) + "\" x1=\"" + Coordinate(x1) + "\" y1=\"" +
         Coordinate(y1) + "\" x2=\"" + Coordinate(x2) + "\" y2=\"" + Coordinate(y2) + "\"/>";
}

std::string Text(double x, double y, const char* anchor, const std::string& text,
                 const std::string& more = {}) {
  return "<text x=\"" + Coordinate(x) + "\" y=\"" + Coordinate(y) + "\" text-anchor=\"" + anchor +
         "\"" + more + ">" + Escaped(text) + "</text>";
}

// A point of one of four shapes.
std::string Mark(double x, double y, const Look& look) {
  const std::string fill = " fill=\"" + look.colour + "\"/>";
  const auto polygon = [&](std::vector<std::pair<double, double>> corners) {
    std::string points;
    for (const auto& [dx, dy] : corners) {
      points += Coordinate(x + dx) + "," + Coordinate(y + dy) + " ";
    }
    return "<polygon points=\"" + points + "\"" + fill;
  };
  const double r = kMark;
  switch (look.shape) {
    case 0:
      return "<circle cx=\"" + Coordinate(x) + "\" cy=\"" + Coordinate(y) + "\" r=\"" +
             Coordinate(r) + "\"" + fill;
    case 1:
      return polygon({{-r, -r}, {r, -r}, {r, r}, {-r, r}});
    case 2:
      return polygon({{0, -1.3 * r}, {1.2 * r, r}, {-1.2 * r, r}});
    default:
      return polygon({{0, -1.4 * r}, {1.4 * r, 0}, {0, 1.4 * r}, {-1.4 * r, 0}});
  }
}

std::string Stroke(const Look& look) {
  return " stroke=\"" + look.colour + "\"" +
         (look.dash.empty() ? "" : " stroke-dasharray=\"" + look.dash + "\"");
}

std::string Frame(const Plot& plot, const Ruler& x, const Ruler& y) {
  std::string svg;
  for (const double tick : y.Ticks()) {
    svg += Line(kLeft, y.At(tick), kWidth - kRight, y.At(tick), "grid");
    svg += Text(kLeft - 8, y.At(tick) + 4, "end", plot.y.text(tick));
  }
  for (const double tick : x.Ticks()) {
    svg += Line(x.At(tick), kTop, x.At(tick), kHeight - kBottom, "grid");
    svg += Text(x.At(tick), kHeight - kBottom + 20, "middle", plot.x.text(tick));
  }
  svg += Line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "axis");
  svg += Line(kLeft, kTop, kLeft, kHeight - kBottom, "axis");
  if (plot.line) {
    svg += Line(kLeft, y.At(*plot.line), kWidth - kRight, y.At(*plot.line), "level");
  }
  svg +=
      Text((kLeft + kWidth - kRight) / 2, kHeight - 10, "middle", plot.x.title, " class=\"title\"");
  const double middle = (kTop + kHeight - kBottom) / 2;
  svg += Text(16, middle, "middle", plot.y.title,
              " class=\"title\" transform=\"rotate(-90 16 " + Coordinate(middle) + ")\"");
  return svg;
}

std::string Drawn(const PlotSeries& series, const Look& look, const Ruler& x, const Ruler& y,
                  bool joined) {
  std::string svg;
  if (joined && series.points.size() > 1) {
    std::string points;
    for (const PlotPoint& point : series.points) {
      points += Coordinate(x.At(point.x)) + "," + Coordinate(y.At(point.y)) + " ";
    }
    svg += "<polyline fill=\"none\" stroke-width=\"2\"" + Stroke(look) + " points=\"" + points +
           "\"/>";
  }
  for (const PlotPoint& point : series.points) {
    svg += Mark(x.At(point.x), y.At(point.y), look);
    if (point.label.empty()) continue;
    const bool left = x.At(point.x) > (kLeft + kWidth) / 2;
    svg += Text(x.At(point.x) + (left ? -9 : 9), y.At(point.y) + 4, left ? "end" : "start",
                point.label);
  }
  return svg;
}

std::string Legend(const std::vector<PlotSeries>& series, bool joined) {
  std::string html = "<ul class=\"legend\">";
  for (size_t i = 0; i < series.size(); ++i) {
    const Look look = LookOf(i);
    html += "<li><svg width=\"34\" height=\"14\" aria-hidden=\"true\">";
    if (joined) {
      html += "<line x1=\"1\" y1=\"7\" x2=\"33\" y2=\"7\" stroke-width=\"2\"" + Stroke(look) + "/>";
    }
    html += Mark(17, 7, look) + "</svg>" + Escaped(series[i].name) + "</li>";
  }
  return html + "</ul>";
}

// What the scales can show.
std::vector<PlotSeries> Shown(const Plot& plot) {
  std::vector<PlotSeries> shown;
  for (PlotSeries series : plot.series) {
    std::erase_if(series.points, [&](const PlotPoint& point) {
      return (IsLog(plot.x.scale) && point.x <= 0) || (IsLog(plot.y.scale) && point.y <= 0);
    });
    if (!series.points.empty()) shown.push_back(std::move(series));
  }
  return shown;
}

}  // namespace

std::string ToFigure(const Plot& plot) {
  const std::vector<PlotSeries> series = Shown(plot);
  if (series.empty()) return {};
  const PlotPoint& first = series.front().points.front();
  double least_x = first.x;
  double most_x = first.x;
  double least_y = plot.line.value_or(first.y);
  double most_y = least_y;
  for (const PlotSeries& one : series) {
    for (const PlotPoint& point : one.points) {
      least_x = std::min(least_x, point.x);
      most_x = std::max(most_x, point.x);
      least_y = std::min(least_y, point.y);
      most_y = std::max(most_y, point.y);
    }
  }
  const Ruler x(plot.x, least_x, most_x, kLeft, kWidth - kRight);
  const Ruler y(plot.y, least_y, most_y, kHeight - kBottom, kTop);
  std::string svg = Frame(plot, x, y);
  for (size_t i = 0; i < series.size(); ++i) {
    svg += Drawn(series[i], LookOf(i), x, y, plot.joined);
  }
  return "<figure><figcaption>" + Escaped(plot.title) +
         "</figcaption><div class=\"wide\"><svg class=\"plot\" role=\"img\" aria-label=\"" +
         Escaped(plot.title) + "\" viewBox=\"0 0 " + Coordinate(kWidth) + " " +
         Coordinate(kHeight) + "\">" + svg + "</svg></div>" + Legend(series, plot.joined) +
         "</figure>\n";
}

}  // namespace onecopy::bench
