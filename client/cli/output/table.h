// Aligned columns for people.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace onecopy::cli {

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    // What happens where there is not room for all: this many characters must be left of a cell, or
    // all (0); the column goes altogether, the lower number first, or never (0).
    size_t least = 0;
    int goes = 0;
    bool loses_end = false;  // rather than its middle
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell for each column; control characters are escaped, and an empty one shows as "-".
  void Add(std::vector<std::string> cells);

  // The titles, then the rows, two spaces between columns and none at the end of a line. With
  // `width`, no line is longer: columns go, spaces between them become one, then cells are
  // shortened, and what is still too long is cut at its end.
  void Print(std::ostream& out, std::optional<size_t> width = {}) const;
  // Without titles, each line after `indent`.
  void PrintRows(std::ostream& out, const std::string& indent) const;

 private:
  // How columns are shown; one of width 0 is not.
  struct Layout {
    std::vector<size_t> widths;
    size_t gap = 2;

    size_t total() const;
  };

  std::vector<size_t> Widths(bool with_titles) const;
  void Fit(Layout& layout, size_t width) const;
  std::string Line(const std::vector<std::string>& cells, const Layout& layout,
                   bool titles = false) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace onecopy::cli
