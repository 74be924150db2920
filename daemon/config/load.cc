#include <fcntl.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <filesystem>

#include "daemon/config/bind.h"
#include "daemon/config/config.h"
#include "daemon/config/problems.h"
#include "daemon/config/read_section.h"
#include "daemon/config/sections.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::config {
namespace {

// No configuration is as long; what is longer is some other file.
constexpr size_t kMaxBytes = 1 << 20;

Result<std::string> ReadFile(const std::string& file) {
  const std::string what = "configuration file " + file;
  const os::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return os::ErrnoStatus(errno, what,
                           errno == ENOENT ? "make one with onecopyd config default" : "");
  }
  std::string text;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os::ErrnoStatus(errno, what);
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
    if (text.size() > kMaxBytes) {
      Problems problems;
      problems.Add(
          0, "it is longer than " + FormatBytes(kMaxBytes) + ", so it is not a configuration file");
      return problems.ToStatus(file);
    }
  }
}

// A file of another version is not judged by the rules of this one.
bool IsOtherVersion(const toml::table& table, Problems& problems) {
  const toml::node* version = table.get("version");
  if (version == nullptr || version->value_exact<int64_t>() == kVersion) return false;
  problems.Add(LineOf(*version), "version must be " + std::to_string(kVersion) +
                                     ", the only one that this onecopyd reads");
  return true;
}

Result<toml::table> ParseTable(std::string_view text, const std::string& file) {
  Problems problems;
  toml::table table;
  try {
    table = toml::parse(text);
    if (!IsOtherVersion(table, problems)) return table;
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    // For users that do not know TOML: `name = east` lacks its quotes.
    if (what.find("could not determine value type") != std::string::npos) {
      what += ": put text in quotes";
    }
    problems.Add(LineOf(error), what);
  }
  return problems.ToStatus(file);
}

Result<Config> BindTable(const toml::table& table, const std::string& file, const Schema& schema) {
  Problems problems;
  Config config = Bind(table, schema, problems);
  ONECOPY_RETURN_IF_ERROR(problems.ToStatus(file));
  return config;
}

// Where the file of measured values is; empty: nowhere.
std::string TunedFile(const toml::table& table, const std::string& file) {
  const std::string named = table["tuned"].value_or(std::string());
  if (!named.empty()) return named;
  const std::string beside = std::filesystem::path(file).replace_filename("tuned.toml").string();
  return ::access(beside.c_str(), F_OK) == 0 ? beside : std::string();
}

// Puts the sections of `tuned` into the gaps of `table`.
Status FillGaps(const std::string& tuned, const Schema& schema, toml::table& table) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string text, ReadFile(tuned));
  ONECOPY_ASSIGN_OR_RETURN(const toml::table measured, ParseTable(text, tuned));
  // Evaluated by itself, so that what is wrong is told with its own line.
  ONECOPY_RETURN_IF_ERROR(BindTable(measured, tuned, schema).status());
  Problems problems;
  for (const auto& [name, node] : measured) {
    if (name == "version") continue;
    if (!node.is_table()) {
      problems.Add(LineOf(name), std::string(name.str()) +
                                     " is not a setting that a file of measured values may have");
      continue;
    }
    if (table.get(name) == nullptr) table.insert(name, toml::table());
    toml::table* const section = table.get_as<toml::table>(name);
    if (section == nullptr) continue;  // no section there: Bind says so
    for (const auto& [key, value] : *node.as_table()) section->insert(key, value);
  }
  return problems.ToStatus(tuned);
}

}  // namespace

Result<Config> Parse(std::string_view text, const std::string& file, const Schema& schema) {
  ONECOPY_ASSIGN_OR_RETURN(const toml::table table, ParseTable(text, file));
  return BindTable(table, file, schema);
}

Result<Config> Load(const std::string& file, const Schema& schema) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  ONECOPY_ASSIGN_OR_RETURN(toml::table table, ParseTable(text, file));
  const std::string tuned = TunedFile(table, file);
  if (!tuned.empty()) ONECOPY_RETURN_IF_ERROR(FillGaps(tuned, schema, table));
  ONECOPY_ASSIGN_OR_RETURN(Config config, BindTable(table, file, schema));
  config.tuned = tuned;
  return config;
}

Config Defaults(const Schema& schema) {
  Problems problems;
  Config config = Bind(toml::table(), schema, problems);
  assert(problems.empty());
  return config;
}

}  // namespace onecopy::config
