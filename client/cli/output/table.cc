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

void Table::PrintLine(std::ostream& out, const std::string& indent,
                      const std::vector<std::string>& cells,
                      const std::vector<size_t>& widths) const {
  std::string line = indent;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - DisplayWidth(cells[i]), ' ');
    if (i > 0) line += "  ";
    line += columns_[i].align == Align::kRight ? padding + cells[i] : cells[i] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

void Table::Print(std::ostream& out) const {
  const std::vector<size_t> widths = Widths(true);
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  PrintLine(out, "", titles, widths);
  for (const auto& row : rows_) PrintLine(out, "", row, widths);
}

void Table::PrintRows(std::ostream& out, const std::string& indent) const {
  const std::vector<size_t> widths = Widths(false);
  for (const auto& row : rows_) PrintLine(out, indent, row, widths);
}

}  // namespace onecopy::cli
