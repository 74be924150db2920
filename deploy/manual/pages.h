// Which manual pages and completions there are.
#pragma once

#include <filesystem>

namespace onecopy::manual {

// Writes them below `folder` by their names in an installation: man1/onecopy.1, bash/onecopy, …
// Throws std::runtime_error where it cannot.
void WriteAll(const std::filesystem::path& folder);

}  // namespace onecopy::manual
