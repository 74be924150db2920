// The blocks of code in a Markdown file: what people copy from it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace onecopy::testing {

struct CodeBlock {
  std::string file;                // as it was named
  size_t line = 0;                 // at which it begins, from 1 on
  std::vector<std::string> lines;  // without the indentation that makes it one
  std::string language;            // as the line that opens it says; empty: it says none

  // The first line, which names the block.
  const std::string& begins() const { return lines.front(); }
  std::string text() const;
};

// Those that are indented by four blanks, and those between lines of ```. Throws where the file
// cannot be read.
std::vector<CodeBlock> CodeBlocksOf(const std::filesystem::path& file, const std::string& name);

}  // namespace onecopy::testing
