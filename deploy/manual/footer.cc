#include "deploy/manual/footer.h"

#include <sstream>
#include <string_view>

namespace onecopy::manual {
namespace {

// What follows the word and its colon; the line itself where there is no colon.
std::string Rest(const std::string& line, std::string_view word) {
  const size_t colon = line.find(':');
  if (colon == std::string::npos || colon > word.size() + 1) return line;
  const size_t from = line.find_first_not_of(' ', colon + 1);
  return from == std::string::npos ? std::string() : line.substr(from);
}

void Add(std::string* text, const std::string& line, char between) {
  if (line.empty()) return;
  if (!text->empty()) *text += between;
  *text += line;
}

void Trim(std::string* text) {
  while (!text->empty() && text->back() == '\n') text->pop_back();
}

}  // namespace

Footer SplitFooter(const std::string& footer) {
  constexpr std::string_view kExample = "Example";
  constexpr std::string_view kStatus = "Exit status";
  Footer parts;
  std::istringstream lines(footer);
  enum class Part { kNotes, kExamples, kStatus } part = Part::kNotes;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kExample)) {
      part = Part::kExamples;
      line = Rest(line, kExample);
      if (!line.empty()) line = "  " + line;
    } else if (line.starts_with(kStatus)) {
      part = Part::kStatus;
      line = Rest(line, kStatus);
    } else if (line.empty()) {
      part = Part::kNotes;
      if (!parts.notes.empty() && !parts.notes.ends_with("\n\n")) parts.notes += "\n";
      continue;
    } else if (part == Part::kExamples && line[0] != ' ') {
      part = Part::kNotes;  // "Exits as `cp` would."
    }
    if (part == Part::kNotes) parts.notes += line + "\n";
    if (part == Part::kExamples) Add(&parts.examples, line, '\n');
    if (part == Part::kStatus) Add(&parts.exit_status, line, ' ');
  }
  Trim(&parts.notes);
  return parts;
}

}  // namespace onecopy::manual
