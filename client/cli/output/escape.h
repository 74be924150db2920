// Text from elsewhere, made safe to show: a name must not be able to move the cursor or to fill the
// screen.
#pragma once

#include <string>
#include <string_view>

namespace onecopy::cli {

// With control characters, and bytes that are not UTF-8, as \n, \t, \x1b and the like. New lines
// become \n, so that the result is one line.
std::string Printable(std::string_view text);

// Printable, in quotes, and with the middle left out when it is very long.
std::string Quote(std::string_view text);

// The text as one word of a shell's command line.
std::string ShellWord(std::string_view text);

// Number of characters (code points) of valid UTF-8: how wide it is on a terminal, nearly.
size_t DisplayWidth(std::string_view text);

// Valid UTF-8 with at most so many characters: what is longer loses its middle, or its end.
std::string Shortened(std::string_view text, size_t width);
std::string Cut(std::string_view text, size_t width);

}  // namespace onecopy::cli
