#include "daemon/engine/base/names.h"

#include <algorithm>
#include <charconv>

#include "onecopy/reasons.h"
#include "transport/core/base/name.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMaxPrinted = 80;

}  // namespace

Status CheckName(const std::string& name, const std::string& what) {
  if (IsName(name)) return OkStatus();
  return {
      Code::kInvalidArgument, reasons::kBadName,
      "\"" + Printable(name) + "\" cannot be the name of a " + what,
      "use 1 to 63 letters, digits, dots, underscores or dashes, and begin with a letter or digit"};
}

std::string Printable(const std::string& text) {
  std::string printable = text.substr(0, kMaxPrinted);
  std::replace_if(
      printable.begin(), printable.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  if (text.size() > kMaxPrinted) printable += "...";
  return printable;
}

TransferId RingTransferId(const std::string& prefix, uint64_t number) {
  char text[17];
  const auto end = std::to_chars(text, text + sizeof text, number, 16);
  return TransferId(prefix + "-" + std::string(text, end.ptr));
}

bool MayBeOfRing(const TransferId& id) { return id.str().find('-') != std::string::npos; }

}  // namespace onecopy::engine
