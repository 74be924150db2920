// One receipt out of those of several transfers that moved pieces of one payload. A template, as
// daemons and clients have receipts of their own.
#pragma once

#include "onecopy/language.h"  // first

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "onecopy/status.h"

namespace onecopy {

namespace merging {

// Each entry of `part` adds its bytes to the first of `whole` that is the `same` and has not been
// added to by another one of this part, or is appended: equal entries of one part stay apart.
template <typename Entry, typename Same>
void AddInTurn(const std::vector<Entry>& part, std::vector<Entry>& whole, Same same) {
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
  }
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

void AddRefusals(const std::vector<Refusal>& part, std::vector<Refusal>& whole);
void AddEvidence(const std::map<std::string, std::string>& part,
                 std::map<std::string, std::string>& whole);
// `text` becomes a list, parted by commas, that has `name` in it.
void AddName(const std::string& name, std::string& text);

}  // namespace merging

// Adds what `part` says to `whole`, which begins empty. Equal steps, lanes and attempts become one
// with the bytes of both (two equal steps or lanes of one part stay two), counters of the evidence
// add up, and a refusal of one path for one reason is kept once, in its newest words. Different
// paths are named one after the other: "tcp-direct,tcp-bounce". `seconds`, rates and `checksum` are
// left for the caller, who knows how the parts overlapped.
template <typename Receipt>
void MergeReceipt(const Receipt& part, Receipt& whole) {
  merging::AddName(part.path, whole.path);
  merging::AddName(part.link, whole.link);
  whole.emulated = whole.emulated || part.emulated;
  if (part.registration != "none" && !part.registration.empty()) {
    whole.registration = part.registration;
  }
  if (part.key != "none" && !part.key.empty()) whole.key = part.key;
  if (part.encryption != "none" && !part.encryption.empty()) whole.encryption = part.encryption;
  merging::AddInTurn(part.steps, whole.steps,
                     [](const auto& a, const auto& b) { return a.step == b.step; });
  merging::AddInTurn(part.lanes, whole.lanes, [](const auto& a, const auto& b) {
    return a.device == b.device && a.peer == b.peer;
  });
  merging::AddTogether(part.attempts, whole.attempts, [](const auto& a, const auto& b) {
    return a.path == b.path && a.outcome == b.outcome;
  });
  whole.negotiation_seconds += part.negotiation_seconds;
  merging::AddRefusals(part.refused, whole.refused);
  merging::AddEvidence(part.evidence, whole.evidence);
}

}  // namespace onecopy
