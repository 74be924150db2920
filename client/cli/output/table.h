// Aligned columns for people.
#pragma once

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
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell for each column; control characters are escaped, and an empty one shows as "-".
  void Add(std::vector<std::string> cells);

  // The titles, then the rows, two spaces between columns and none at the end of a line.
  void Print(std::ostream& out) const;
  // Without titles, each line after `indent`.
  void PrintRows(std::ostream& out, const std::string& indent) const;

 private:
  std::vector<size_t> Widths(bool with_titles) const;
  void PrintLine(std::ostream& out, const std::string& indent,
                 const std::vector<std::string>& cells, const std::vector<size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace onecopy::cli
