#include "daemon/log/escape.h"

#include <array>
#include <cstdint>
#include <cstdio>

#include "onecopy/utf8.h"

namespace onecopy::log {
namespace {

bool IsHarmful(uint32_t code) {
  const auto within = [code](uint32_t first, uint32_t last) {
    return code >= first && code <= last;
  };
  return code < 0x20 || within(0x7f, 0x9f)  // control characters
         || code == 0xad || within(0x200b, 0x200f) || within(0x2028, 0x202e) ||
         within(0x2060, 0x206f) || code == 0xfeff  // invisible, or change the direction
         || within(0xfff9, 0xfffb) || within(0xe0000, 0xe007f);
}

std::string EscapeOf(const char* format, uint32_t number) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), format, static_cast<unsigned>(number));
  return text.data();
}

std::string EscapeOf(uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  if (code < 0x80) return EscapeOf("\\x%02x", code);
  return code <= 0xffff ? EscapeOf("\\u%04x", code) : EscapeOf("\\U%08x", code);
}

}  // namespace

std::string Escape(std::string_view text, size_t most_bytes, bool quotes) {
  std::string escaped;
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Character character = DecodeUtf8(text.substr(at));
    if (at + (character.bytes == 0 ? 1 : character.bytes) > most_bytes) {
      return escaped + "…[" + std::to_string(text.size()) + " bytes]";
    }
    if (character.bytes == 0) {
      escaped += EscapeOf("\\x%02x", static_cast<unsigned char>(text[at]));
      ++at;
      continue;
    }
    if (IsHarmful(character.code)) {
      escaped += EscapeOf(character.code);
    } else {
      if (quotes && (character.code == '"' || character.code == '\\')) escaped += '\\';
      escaped += text.substr(at, character.bytes);
    }
    at += character.bytes;
  }
  return escaped;
}

}  // namespace onecopy::log
