#include <algorithm>

#include "daemon/config/config.h"
#include "daemon/config/sections.h"
#include "daemon/config/value_text.h"

namespace onecopy::config {
namespace {

constexpr size_t kColumns = 100;

// Comment lines of whole words.
std::string Comment(const std::string& text) {
  std::string comment;
  std::string line = "#";
  size_t from = 0;
  while (from < text.size()) {
    const size_t blank = std::min(text.find(' ', from), text.size());
    const std::string word = text.substr(from, blank - from);
    if (line.size() + 1 + word.size() > kColumns && line != "#") {
      comment += line + "\n";
      line = "#";
    }
    line += " " + word;
    from = blank + 1;
  }
  return comment + line + "\n";
}

std::string Keys(const std::vector<SettingSpec>& specs) {
  std::string text;
  for (const SettingSpec& spec : specs) {
    std::string bounds = BoundsText(spec);
    if (!bounds.empty()) bounds = " May be " + bounds + ".";
    text += Comment(spec.doc + bounds);
    text += "#" + spec.key + " = " + ValueText(spec.type, spec.fallback) + "\n";
  }
  return text;
}

}  // namespace

std::string PrintDefault(const Schema& schema) {
  std::string text = Comment(
      "Configuration of onecopyd. Every key is shown with its default; remove the # before it to "
      "set it. Command-line flags take precedence over this file. Check a file with: onecopyd "
      "config check FILE");
  text += "version = " + std::to_string(kVersion) + "\n\n" + Keys(TopKeys());
  for (const SectionSpec& section : SectionsToRead(schema)) {
    text += "\n";
    if (!section.doc.empty()) text += Comment(section.doc);
    text += (section.example ? "#[" : "[") + section.name + "]\n" + Keys(section.keys);
  }
  return text;
}

}  // namespace onecopy::config
