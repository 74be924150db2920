// The text below a command's help, by what its paragraphs are.
#pragma once

#include <string>

namespace onecopy::manual {

struct Footer {
  std::string examples;     // lines
  std::string exit_status;  // running text
  std::string notes;        // lines
};

// A line that begins with "Example" or "Exit status" begins that part, which ends with an empty
// line or where the other begins. All else is notes.
Footer SplitFooter(const std::string& footer);

}  // namespace onecopy::manual
