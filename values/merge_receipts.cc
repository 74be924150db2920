#include "onecopy/merge_receipts.h"

#include <charconv>
#include <cstdint>
#include <optional>

namespace onecopy::merging {
namespace {

std::optional<uint64_t> Counter(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

void AddRefusals(const std::vector<Refusal>& part, std::vector<Refusal>& whole) {
  for (const Refusal& refusal : part) {
    const auto known = std::find_if(whole.begin(), whole.end(), [&](const Refusal& other) {
      return other.path == refusal.path && other.reason == refusal.reason;
    });
    if (known == whole.end()) {
      whole.push_back(refusal);
    } else {
      *known = refusal;
    }
  }
}

void AddEvidence(const std::map<std::string, std::string>& part,
                 std::map<std::string, std::string>& whole) {
  for (const auto& [name, value] : part) {
    const auto [entry, added] = whole.emplace(name, value);
    if (added) continue;
    const auto before = Counter(entry->second);
    const auto more = Counter(value);
    entry->second = before && more ? std::to_string(*before + *more) : value;
  }
}

void AddName(const std::string& name, std::string& text) {
  if (name.empty() || ("," + text + ",").find("," + name + ",") != std::string::npos) return;
  text += (text.empty() ? "" : ",") + name;
}

}  // namespace onecopy::merging
