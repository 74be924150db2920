// What fuzz targets share. A target is one function that takes any bytes at all and neither ends
// the process nor finds one of its own expectations broken; and the inputs that it begins with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onecopy/result.h"

// libFuzzer's name for it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace onecopy::fuzz {

// What is right in every respect, to begin with: inputs that the target takes. Written to corpus/
// by the replaying program, see README.md.
std::vector<std::string> Seeds();

// Ends the process, which is how a fuzzer learns of it.
#define EXPECT(condition)                                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: expected: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                  \
    }                                                                                \
  } while (false)

// Cuts an input; what is not there is zero, or empty.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  uint8_t Byte() {
    const std::string_view byte = Cut(1);
    return byte.empty() ? uint8_t{0} : static_cast<uint8_t>(byte[0]);
  }
  // Little-endian.
  template <typename Number>
  Number Get() {
    Number number = 0;
    for (size_t i = 0; i < sizeof number; ++i) {
      number = static_cast<Number>(number | static_cast<Number>(Number{Byte()} << (8 * i)));
    }
    return number;
  }
  std::string_view Cut(size_t bytes) {
    const std::string_view cut = rest_.substr(0, bytes);
    rest_.remove_prefix(cut.size());
    return cut;
  }
  std::string_view Rest() { return Cut(rest_.size()); }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// One target may have several decoders: the first byte says which.
inline std::string For(uint8_t decoder, const std::string& bytes) {
  return std::string(1, static_cast<char>(decoder)) + bytes;
}

// What was decoded must be encoded to something that decodes to the same again. `decode` gives
// something with a truth value (an optional, or a Result through `ok`).
template <typename Decode>
void RoundTrip(std::string_view bytes, const Decode& decode) {
  const auto first = decode(std::string(bytes));
  if (!first) return;
  const std::string printed = Encode(*first);
  const auto second = decode(printed);
  EXPECT(second);
  EXPECT(Encode(*second) == printed);
}

// Likewise by a decoder that gives a Result.
template <typename T, typename Text>
void RoundTripOf(std::string_view bytes, Result<T> (*decode)(Text)) {
  RoundTrip(bytes, [decode](const std::string& text) {
    Result<T> decoded = decode(text);
    return decoded.ok() ? std::optional<T>(*std::move(decoded)) : std::nullopt;
  });
}

}  // namespace onecopy::fuzz
