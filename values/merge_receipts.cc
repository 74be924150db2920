#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "onecopy/transfer.h"
#include "values/name_list.h"

namespace onecopy {
namespace {

std::optional<uint64_t> Counter(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Each entry of `part` adds its bytes to the first of `whole` that is the `same` and has not been
// added to by another one of this part, or is appended: equal entries of one part stay apart.
// Returns where each entry went.
template <typename Entry, typename Same>
std::vector<size_t> AddInTurn(const std::vector<Entry>& part, std::vector<Entry>& whole,
                              Same same) {
  std::vector<size_t> places;
  std::vector<bool> used(whole.size(), false);
  for (const Entry& entry : part) {
    size_t at = 0;
    while (at < used.size() && (used[at] || !same(entry, whole[at]))) ++at;
    if (at == used.size()) {
      whole.push_back(entry);
      used.push_back(true);
    } else {
      whole[at].bytes += entry.bytes;
      used[at] = true;
    }
    places.push_back(at);
  }
  return places;
}

// Likewise, but equal entries of one part become one, too.
template <typename Entry, typename Same>
void AddTogether(const std::vector<Entry>& part, std::vector<Entry>& whole, Same same) {
  for (const Entry& entry : part) {
    const auto known = std::find_if(whole.begin(), whole.end(),
                                    [&](const Entry& other) { return same(entry, other); });
    if (known == whole.end()) {
      whole.push_back(entry);
    } else {
      known->bytes += entry.bytes;
    }
  }
}

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

}  // namespace

void MergeReceipt(const Receipt& part, Receipt& whole) {
  AddName(part.path, whole.path);
  AddName(part.link, whole.link);
  whole.emulated = whole.emulated || part.emulated;
  if (part.registration != "none" && !part.registration.empty()) {
    whole.registration = part.registration;
  }
  if (part.key != "none" && !part.key.empty()) whole.key = part.key;
  if (part.encryption != "none" && !part.encryption.empty()) whole.encryption = part.encryption;
  const std::vector<size_t> places = AddInTurn(
      part.steps, whole.steps,
      [](const ExecutedStep& a, const ExecutedStep& b) { return IsOnePass(a.step, b.step); });
  for (size_t i = 0; i < places.size(); ++i) {
    JoinPass(part.steps[i].step, whole.steps[places[i]].step);
  }
  AddInTurn(part.lanes, whole.lanes,
            [](const auto& a, const auto& b) { return a.device == b.device && a.peer == b.peer; });
  AddTogether(part.attempts, whole.attempts, [](const auto& a, const auto& b) {
    return a.path == b.path && a.outcome == b.outcome;
  });
  whole.negotiation_seconds += part.negotiation_seconds;
  AddRefusals(part.refused, whole.refused);
  AddEvidence(part.evidence, whole.evidence);
}

}  // namespace onecopy
