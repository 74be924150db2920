#include "client/cli/output/table.h"

#include <algorithm>
#include <cassert>

#include "client/cli/output/escape.h"

namespace onecopy::cli {

void Table::Add(std::vector<std::string> cells) {
  assert(cells.size() == columns_.size());
  for (std::string& cell : cells) cell = cell.empty() ? "-" : Printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<size_t> Table::Widths(bool with_titles) const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (with_titles) widths[i] = DisplayWidth(columns_[i].title);
    for (const auto& row : rows_) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  return widths;
}

size_t Table::Layout::total() const {
  size_t total = 0;
  for (const size_t width : widths) {
    if (width > 0) total += width + (total > 0 ? gap : 0);
  }
  return total;
}

void Table::Fit(Layout& layout, size_t width) const {
  std::vector<size_t> going;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].goes != 0) going.push_back(i);
  }
  std::sort(going.begin(), going.end(),
            [this](size_t a, size_t b) { return columns_[a].goes < columns_[b].goes; });
  for (const size_t column : going) {
    if (layout.total() > width) layout.widths[column] = 0;
  }
  if (layout.total() > width) layout.gap = 1;
  // The longest gives way first.
  while (layout.total() > width) {
    size_t longest = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i) {
      const size_t least = columns_[i].least;
      if (least == 0 || layout.widths[i] <= least) continue;
      if (longest == columns_.size() || layout.widths[i] > layout.widths[longest]) longest = i;
    }
    if (longest == columns_.size()) return;
    --layout.widths[longest];
  }
}

std::string Table::Line(const std::vector<std::string>& cells, const Layout& layout,
                        bool titles) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (layout.widths[i] == 0) continue;
    const bool cut = titles || columns_[i].loses_end;
    const std::string cell =
        cut ? Cut(cells[i], layout.widths[i]) : Shortened(cells[i], layout.widths[i]);
    const std::string padding(layout.widths[i] - DisplayWidth(cell), ' ');
    if (!line.empty()) line += std::string(layout.gap, ' ');
    line += columns_[i].align == Align::kRight ? padding + cell : cell + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

void Table::Print(std::ostream& out, std::optional<size_t> width) const {
  Layout layout{Widths(true)};
  if (width.has_value()) Fit(layout, *width);
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  const auto print = [&](const std::vector<std::string>& cells, bool are_titles) {
    const std::string line = Line(cells, layout, are_titles);
    out << (width.has_value() ? Cut(line, *width) : line) << '\n';
  };
  print(titles, true);
  for (const auto& row : rows_) print(row, false);
}

void Table::PrintRows(std::ostream& out, const std::string& indent) const {
  const Layout layout{Widths(false)};
  for (const auto& row : rows_) out << indent << Line(row, layout) << '\n';
}

}  // namespace onecopy::cli
