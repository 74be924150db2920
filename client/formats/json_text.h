// JSON as its standard has it.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace onecopy::formats {

// Tells the reader each word of the text; false where the reader wants no more, or the text is not
// JSON, which the reader is told by NotJson(position). The library by itself takes a NUL for the
// text's end, and passes over a byte order mark.
template <typename Reader>
bool ReadJson(std::string_view text, Reader* reader) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  const size_t wrong = text.starts_with(kMark) ? 0 : text.find('\0');
  if (wrong == std::string_view::npos) return nlohmann::json::sax_parse(text, reader);
  return reader->NotJson(wrong);
}

}  // namespace onecopy::formats
