#include "daemon/log/escape.h"

#include <array>
#include <cstdint>
#include <cstdio>

namespace onecopy::log {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: not UTF-8
};

// The character at the start of `text`. Overlong forms and surrogates are not UTF-8.
Character Decode(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::array<uint32_t, 5> kMinCode = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kMinCode[bytes] || code > 0x10ffff || surrogate) return {};
  return {code, bytes};
}

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
    const Character character = Decode(text.substr(at));
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
