// Users in the configuration that have a right to files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/config/config.h"

namespace onecopy::config {

// A name of a node in which * and ? may stand for some of it.
bool IsNodePattern(std::string pattern);

// "1000@west", "*@gpu-*", "1000". Nothing for anything else.
std::optional<FileUser> ParseFileUser(const std::string& text);

// "0640", "664": what lets the owner read and write, and no more than 0777. Nothing for anything
// else.
std::optional<uint32_t> ParseFileMode(const std::string& text);

}  // namespace onecopy::config
