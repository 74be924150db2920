#include "client/cli/output/escape.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "onecopy/utf8.h"

namespace onecopy::cli {
namespace {

constexpr size_t kMaxQuoted = 100;

// Characters that steer a terminal: C0, DEL, and C1.
bool IsControl(uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

void AppendEscaped(std::string_view bytes, std::string& text) {
  for (const char c : bytes) {
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else {
      std::array<char, 5> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned char>(c));
      text += escaped.data();
    }
  }
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto [code, length] = DecodeUtf8(text);
    const std::string_view character = text.substr(0, std::max<size_t>(1, length));
    if (length == 0 || IsControl(code)) {
      AppendEscaped(character, shown);
    } else {
      shown += character;
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

std::string Quote(std::string_view text) {
  if (text.size() <= kMaxQuoted) return "\"" + Printable(text) + "\"";
  constexpr size_t kKept = 30;
  return "\"" + Printable(text.substr(0, kKept)) + "…" +
         Printable(text.substr(text.size() - kKept)) + "\" (" + std::to_string(text.size()) +
         " characters)";
}

std::string ShellWord(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return Printable(word + "'");
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return width;
}

std::string Cut(std::string_view text, size_t width) {
  size_t end = 0;
  for (size_t shown = 0; end < text.size() && shown < width; ++shown) {
    end += std::max<size_t>(1, DecodeUtf8(text.substr(end)).bytes);
  }
  return std::string(text.substr(0, end));
}

std::string Shortened(std::string_view text, size_t width) {
  const size_t whole = DisplayWidth(text);
  if (whole <= width) return std::string(text);
  if (width < 3) return Cut(text, width);
  const std::string begin = Cut(text, width / 2);
  const size_t left_out = whole - (width - 1 - width / 2);
  return begin + "…" + std::string(text.substr(Cut(text, left_out).size()));
}

}  // namespace onecopy::cli
