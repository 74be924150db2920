#include "onecopy/size.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>

#include "onecopy/reasons.h"

namespace onecopy {
namespace {

struct SizeUnit {
  std::string_view name;
  uint64_t bytes;
};

constexpr std::array<SizeUnit, 13> kSizeUnits = {{
    {"B", 1},
    {"KiB", uint64_t{1} << 10},
    {"MiB", uint64_t{1} << 20},
    {"GiB", uint64_t{1} << 30},
    {"TiB", uint64_t{1} << 40},
    {"PiB", uint64_t{1} << 50},
    {"EiB", uint64_t{1} << 60},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"PB", 1'000'000'000'000'000},
    {"EB", 1'000'000'000'000'000'000},
}};

Status BadSize(std::string_view text, std::string_view why, const std::string& meant = {}) {
  return {Code::kInvalidArgument, reasons::kBadSize,
          "\"" + std::string(text) + "\" is not a size: " + std::string(why),
          meant + "write a number of bytes such as 4096, 64KiB or 1GiB"};
}

// "did you mean 64MiB or 64MB? " of 64M, 64mb and the like; else empty.
std::string MeantSize(std::string_view number, std::string_view unit) {
  if (unit.empty()) return {};
  std::string letters;
  for (const char c : unit) letters += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  std::string meant;
  for (const SizeUnit& known : kSizeUnits) {
    if (known.name.front() != letters.front()) continue;
    std::string folded(known.name);
    std::replace(folded.begin(), folded.end(), 'i', 'I');
    const bool prefix = letters.size() == 1 && letters != "B";
    if (!prefix && folded != letters) continue;
    meant +=
        (meant.empty() ? "did you mean " : " or ") + std::string(number) + std::string(known.name);
  }
  return meant.empty() ? meant : meant + "? ";
}

// The part after the point, in bytes: `digits` tenths, hundredths… of `scale`, without rounding.
Result<uint64_t> Fraction(std::string_view text, std::string_view digits, uint64_t scale) {
  constexpr size_t kMaxDigits = 9;  // so that no product below leaves 64 bits
  if (digits.empty()) return BadSize(text, "there is no digit after the point");
  if (digits.size() > kMaxDigits) return BadSize(text, "it has more than nine decimals");
  uint64_t numerator = 0;
  uint64_t denominator = 1;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return BadSize(text, "it has two decimal points");
    numerator = numerator * 10 + static_cast<uint64_t>(digit - '0');
    denominator *= 10;
  }
  const uint64_t rest = scale % denominator * numerator;
  if (rest % denominator != 0) return BadSize(text, "it is not a whole number of bytes");
  return scale / denominator * numerator + rest / denominator;
}

// At most two decimals, none where they are zero.
std::string Shorten(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  std::string shortened = text.data();
  while (shortened.back() == '0') shortened.pop_back();
  if (shortened.back() == '.') shortened.pop_back();
  return shortened;
}

}  // namespace

Result<uint64_t> ParseBytes(std::string_view text) {
  const size_t split = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, split);
  std::string_view unit = split == std::string_view::npos ? "B" : text.substr(split);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (text.empty()) return BadSize(text, "it is empty");
  if (text.front() == '-') return BadSize(text, "it is negative");
  if (number.empty()) return BadSize(text, "it does not begin with a digit");

  uint64_t scale = 0;
  for (const SizeUnit& u : kSizeUnits) {
    if (u.name == unit) scale = u.bytes;
  }
  if (scale == 0) {
    return BadSize(text, "unknown unit \"" + std::string(unit) + "\"", MeantSize(number, unit));
  }

  const char* end = number.data() + number.size();
  const size_t point = number.find('.');
  const char* whole_end = point == std::string_view::npos ? end : number.data() + point;
  uint64_t whole = 0;
  auto [stop, error] = std::from_chars(number.data(), whole_end, whole);
  if (error == std::errc::result_out_of_range) return BadSize(text, "it is above 2^64-1");
  if (error != std::errc() || stop != whole_end) return BadSize(text, "it is not a number");
  if (whole > std::numeric_limits<uint64_t>::max() / scale) {
    return BadSize(text, "it is above 2^64-1");
  }
  uint64_t bytes = whole * scale;
  if (point != std::string_view::npos) {
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t part, Fraction(text, number.substr(point + 1), scale));
    if (part > std::numeric_limits<uint64_t>::max() - bytes) {
      return BadSize(text, "it is above 2^64-1");
    }
    bytes += part;
  }
  return bytes;
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr std::array<std::string_view, 7> kNames = {"B",   "KiB", "MiB", "GiB",
                                                             "TiB", "PiB", "EiB"};
  size_t unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return Shorten(value) + " " + std::string(kNames[unit]);
}

std::string FormatRate(double bytes_per_second) {
  static constexpr std::array<std::string_view, 5> kNames = {"B/s", "KB/s", "MB/s", "GB/s", "TB/s"};
  size_t unit = 0;
  while (bytes_per_second >= 1000 && unit + 1 < kNames.size()) {
    bytes_per_second /= 1000;
    ++unit;
  }
  return Shorten(bytes_per_second) + " " + std::string(kNames[unit]);
}

}  // namespace onecopy
