#include <fcntl.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>

#include "daemon/config/bind.h"
#include "daemon/config/config.h"
#include "daemon/config/problems.h"
#include "daemon/config/read_section.h"
#include "daemon/config/sections.h"
#include "transport/core/size.h"
#include "transport/os/error.h"
#include "transport/os/unique_fd.h"

namespace onecopy::config {
namespace {

// No configuration is as long; what is longer is some other file.
constexpr size_t kMostBytes = 1 << 20;

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
    if (text.size() > kMostBytes) {
      Problems problems;
      problems.Add(0, "it is longer than " + FormatBytes(kMostBytes) + ", so it is something else");
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

}  // namespace

Result<Config> Parse(std::string_view text, const std::string& file, const Schema& schema) {
  Problems problems;
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    problems.Add(LineOf(error), std::string(error.description()));
    return problems.ToStatus(file);
  }
  if (IsOtherVersion(table, problems)) return problems.ToStatus(file);
  Config config = Bind(table, schema, problems);
  ONECOPY_RETURN_IF_ERROR(problems.ToStatus(file));
  return config;
}

Result<Config> Load(const std::string& file, const Schema& schema) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  return Parse(text, file, schema);
}

Config Defaults(const Schema& schema) {
  Problems problems;
  Config config = Bind(toml::table(), schema, problems);
  assert(problems.empty());
  return config;
}

}  // namespace onecopy::config
