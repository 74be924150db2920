#include "client/cli/output/escape.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace onecopy::cli {
namespace {

constexpr size_t kMaxQuoted = 100;

// Length of the well-formed UTF-8 character at the beginning of `text`; 0 where there is none.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = 0;
  uint32_t least = 0;
  uint32_t point = 0;
  if (byte(0) < 0x80) return 1;
  if ((byte(0) & 0xE0) == 0xC0) {
    length = 2;
    least = 0x80;
    point = byte(0) & 0x1Fu;
  } else if ((byte(0) & 0xF0) == 0xE0) {
    length = 3;
    least = 0x800;
    point = byte(0) & 0x0Fu;
  } else if ((byte(0) & 0xF8) == 0xF0) {
    length = 4;
    least = 0x10000;
    point = byte(0) & 0x07u;
  } else {
    return 0;
  }
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    point = point << 6 | (byte(i) & 0x3Fu);
  }
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  return point < least || point > 0x10FFFF || surrogate ? 0 : length;
}

// Characters that steer a terminal: C0, DEL, and C1 (two bytes in UTF-8).
bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return character.size() == 2 && first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

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
    const size_t length = CharacterLength(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || IsControl(character)) {
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
    end += std::max<size_t>(1, CharacterLength(text.substr(end)));
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
