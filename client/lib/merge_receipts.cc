#include "client/lib/merge_receipts.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace onecopy::client {
namespace {

void MergeSteps(const std::vector<ExecutedStep>& part, std::vector<ExecutedStep>& whole) {
  std::vector<bool> used(whole.size(), false);
  for (const ExecutedStep& step : part) {
    size_t at = 0;
    while (at < used.size() && (used[at] || whole[at].step != step.step)) ++at;
    if (at == used.size()) {
      whole.push_back(step);
      used.push_back(true);
    } else {
      whole[at].bytes += step.bytes;
      used[at] = true;
    }
  }
}

// Adds each entry's bytes to that of `whole` which is `same`.
template <typename Entry, typename Same>
void MergeBytes(const std::vector<Entry>& part, std::vector<Entry>& whole, Same same) {
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

void MergeRefusals(const std::vector<Refusal>& part, std::vector<Refusal>& whole) {
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

std::optional<uint64_t> Counter(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void MergeEvidence(const std::map<std::string, std::string>& part,
                   std::map<std::string, std::string>& whole) {
  for (const auto& [name, value] : part) {
    const auto [entry, added] = whole.emplace(name, value);
    if (added) continue;
    const auto before = Counter(entry->second);
    const auto more = Counter(value);
    entry->second = before && more ? std::to_string(*before + *more) : value;
  }
}

// `text` becomes a list, parted by commas, that has `name` in it.
void MergeName(const std::string& name, std::string& text) {
  if (name.empty() || ("," + text + ",").find("," + name + ",") != std::string::npos) return;
  text += (text.empty() ? "" : ",") + name;
}

}  // namespace

void MergeReceipt(const Receipt& part, Receipt& whole) {
  MergeName(part.path, whole.path);
  MergeName(part.link, whole.link);
  whole.emulated = whole.emulated || part.emulated;
  if (part.registration != "none" && !part.registration.empty()) {
    whole.registration = part.registration;
  }
  if (part.key != "none" && !part.key.empty()) whole.key = part.key;
  MergeSteps(part.steps, whole.steps);
  MergeBytes(part.lanes, whole.lanes, [](const LaneBytes& a, const LaneBytes& b) {
    return a.device == b.device && a.peer == b.peer;
  });
  MergeBytes(part.attempts, whole.attempts, [](const Attempt& a, const Attempt& b) {
    return a.path == b.path && a.outcome == b.outcome;
  });
  whole.negotiation_seconds += part.negotiation_seconds;
  MergeRefusals(part.refused, whole.refused);
  MergeEvidence(part.evidence, whole.evidence);
}

}  // namespace onecopy::client
