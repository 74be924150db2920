// Inside the configuration: its sections and keys, as data. The reader, its checks and the
// commented default file are made from these tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/config.h"

namespace onecopy::config {

struct SectionSpec {
  std::string name;
  std::string doc;  // may be empty
  std::vector<SettingSpec> keys;
  bool example = false;  // the name is one of any number: peers.west
};

// The value of `metrics_listen` for no metrics, and of `restart.holder` for no holder.
inline constexpr std::string_view kOff = "off";
// The value of `restart.holder` for a holder that the daemon starts.
inline constexpr std::string_view kOwn = "own";

// The only version of the file that there is.
inline constexpr int64_t kVersion = 1;

// The keys above the first section, without `version`.
const std::vector<SettingSpec>& TopKeys();

// The keys of each [peers.NAME].
const std::vector<SettingSpec>& PeerKeys();
// The keys of each [exports.NAME].
const std::vector<SettingSpec>& ExportKeys();
// The keys of each [qos.NAME].
const std::vector<SettingSpec>& ShareKeys();

// The daemon's own sections, then [libraries], then the backends'.
std::vector<SectionSpec> Sections(const Schema& schema);

// All that a file may have, in the order in which people read of it: those above, and an example of
// [peers.NAME] and of [exports.NAME].
std::vector<SectionSpec> SectionsToRead(const Schema& schema);

// A key of [limits] for all users together; NAME_per_user is that for each.
struct LimitKey {
  std::string name;
  Limit Limits::*limit;
};
const std::vector<LimitKey>& LimitKeys();

// What `log.level` and `log.format` may be.
const std::vector<std::string>& LogLevels();
const std::vector<std::string>& LogFormats();  // in the order of LogFormat
// What `discovery.kind` may be, in the order of DiscoveryKind.
const std::vector<std::string>& DiscoveryKinds();
// What `audit.level` may be, from the fewest records to the most.
const std::vector<std::string>& AuditLevels();

}  // namespace onecopy::config
