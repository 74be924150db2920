// Inside the configuration: reads one section of the file by the table of its keys.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/config/problems.h"
#include "daemon/config/sections.h"

namespace onecopy::config {

struct Section {
  Settings settings;                      // complete
  std::map<std::string, uint32_t> lines;  // of the keys that the file sets
  std::set<std::string> wrong;            // those of them whose value was refused

  bool Has(const std::string& key) const { return lines.contains(key); }
  uint32_t LineOf(const std::string& key) const { return Has(key) ? lines.at(key) : 0; }
};

// `name` is for messages, as "[staging]"; empty: the top of the file. Keys of `elsewhere`, which
// are read by other means, are passed over. A value that is wrong leaves the key's default.
// `table` may be null: the file does not have the section.
Section ReadSection(const toml::table* table, const std::string& name,
                    const std::vector<SettingSpec>& specs,
                    const std::vector<std::string>& elsewhere, Problems& problems);

// "staging.slots", "name": for messages.
std::string KeyText(const std::string& section, const std::string& key);

// "(did you mean slots?)" with a blank before it, or nothing.
std::string DidYouMean(std::string_view typed, const std::vector<std::string>& known);

// "text", "a section": what a node of the file is, for messages.
std::string KindText(const toml::node& node);

// The line at which a key, a value or a section begins.
template <typename Located>
uint32_t LineOf(const Located& located) {
  return static_cast<uint32_t>(located.source().begin.line);
}

}  // namespace onecopy::config
