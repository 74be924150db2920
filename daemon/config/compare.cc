#include <algorithm>
#include <array>
#include <string_view>

#include "daemon/config/config.h"

namespace onecopy::config {
namespace {

bool CountsAtOnce(std::string_view key) {
  constexpr std::array<std::string_view, 6> kKeys = {"log.level", "tls.ca",  "tls.certificate",
                                                     "tls.key",   "tls.crl", "tls.reload"};
  return key.starts_with("peers.") || key.starts_with("exports.") || key.starts_with("qos.") ||
         std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

// Both or neither: what a daemon speaks is settled when it starts.
bool TurnsTlsOnOrOff(const Config& running, const Config& wanted) {
  return running.tls.enabled() != wanted.tls.enabled();
}

std::string TextOf(const Config& config, const std::string& key) {
  const auto found = config.texts.find(key);
  return found == config.texts.end() ? "(not set)" : found->second;
}

}  // namespace

Changes Compare(const Config& running, const Config& wanted) {
  Changes changes;
  std::map<std::string, std::string> all = running.texts;
  all.insert(wanted.texts.begin(), wanted.texts.end());
  const bool tls_waits = TurnsTlsOnOrOff(running, wanted);
  for (const auto& [key, text] : all) {
    const std::string before = TextOf(running, key);
    const std::string after = TextOf(wanted, key);
    if (before == after) continue;
    const bool waits = !CountsAtOnce(key) || (tls_waits && key.starts_with("tls."));
    (waits ? changes.at_restart : changes.now).push_back(key + ": " + before + " -> " + after);
  }
  return changes;
}

Config Merge(const Config& running, const Config& wanted) {
  Config merged = running;
  merged.peers = wanted.peers;
  merged.exports = wanted.exports;
  merged.shares = wanted.shares;
  merged.log_level = wanted.log_level;
  const bool tls = !TurnsTlsOnOrOff(running, wanted);
  if (tls) {
    merged.tls = wanted.tls;
    merged.tls.lanes_plain = running.tls.lanes_plain;
  }
  const auto counts = [&](const std::string& key) {
    return CountsAtOnce(key) && (tls || !key.starts_with("tls."));
  };
  std::erase_if(merged.texts, [&](const auto& entry) { return counts(entry.first); });
  for (const auto& [key, text] : wanted.texts) {
    if (counts(key)) merged.texts[key] = text;
  }
  return merged;
}

}  // namespace onecopy::config
