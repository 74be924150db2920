// Pieces of a manual page, as man(7) has them.
#pragma once

#include <string>

namespace onecopy::manual {

// The text, on lines of its own, with nothing in it that roff would understand.
std::string Escape(const std::string& text);

std::string Bold(const std::string& text);
std::string Italic(const std::string& text);

// With a full stop at its end.
std::string Sentence(const std::string& text);

// Which page it is, and of what.
struct PageTitle {
  std::string name;
  int section = 1;
  std::string text;     // what it is, in one line
  std::string version;  // "onecopy 0.1.0"
};
// The head of the page and its NAME.
std::string Head(const PageTitle& title);

// `.SH` and `.SS`.
std::string Heading(const std::string& text);
std::string SmallHeading(const std::string& text);

// A term (roff already) with its explanation (plain) beside it.
std::string Item(const std::string& term, const std::string& text);

// Lines that stay as they are.
std::string Verbatim(const std::string& text);

}  // namespace onecopy::manual
