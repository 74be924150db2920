#include "tests/support/markdown.h"

#include <sstream>

#include "tests/support/process.h"

namespace onecopy::testing {
namespace {

constexpr char kIndent[] = "    ";
constexpr char kFence[] = "```";

// A paragraph goes on over lines that are indented; only after these does a block begin.
bool EndsParagraph(const std::string& line) { return line.empty() || line.starts_with('#'); }

}  // namespace

std::string CodeBlock::text() const {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<CodeBlock> CodeBlocksOf(const std::filesystem::path& file, const std::string& name) {
  std::vector<CodeBlock> blocks;
  std::istringstream text(ReadFile(file));
  std::string before;
  std::string line;
  bool fenced = false;
  bool indented = false;
  for (size_t number = 1; std::getline(text, line); ++number) {
    if (line.starts_with(kFence)) {
      fenced = !fenced;
      if (fenced) blocks.push_back({name, number + 1, {}, line.substr(sizeof kFence - 1)});
    } else if (fenced) {
      blocks.back().lines.push_back(line);
    } else if (line.starts_with(kIndent) && (indented || EndsParagraph(before))) {
      if (!indented) blocks.push_back({name, number, {}, ""});
      indented = true;
      blocks.back().lines.push_back(line.substr(sizeof kIndent - 1));
    } else if (indented && line.empty()) {
      blocks.back().lines.emplace_back();
    } else {
      indented = false;
    }
    before = line;
  }
  for (CodeBlock& block : blocks) {
    while (!block.lines.empty() && block.lines.back().empty()) block.lines.pop_back();
  }
  return blocks;
}

}  // namespace onecopy::testing
