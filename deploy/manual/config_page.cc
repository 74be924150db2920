#include "deploy/manual/config_page.h"

#include "daemon/config/sections.h"
#include "daemon/config/value_text.h"
#include "deploy/manual/roff.h"

namespace onecopy::manual {
namespace {

std::string Keys(const std::vector<SettingSpec>& keys) {
  std::string page;
  for (const SettingSpec& key : keys) {
    std::string text = Sentence(key.doc);
    const std::string bounds = config::BoundsText(key);  // of numbers: other defaults show the type
    if (!bounds.empty()) text += " It is " + config::TypeText(key.type) + ", " + bounds + ".";
    page += Item(Bold(key.key) + " = " + Escape(config::ValueText(key.type, key.fallback)), text);
  }
  return page;
}

std::string Section(const config::SectionSpec& section) {
  std::string page = Heading("[" + section.name + "]");
  if (!section.doc.empty()) page += Escape(Sentence(section.doc)) + "\n";
  return page + Keys(section.keys);
}

}  // namespace

std::string PrintConfigPage(const config::Schema& schema, const ManPage& page) {
  std::string text =
      Head({"onecopy.toml", page.section, "configuration of onecopyd", page.version});
  text += Heading("DESCRIPTION");
  text += Escape(
              "The file that `onecopyd --config FILE` reads, in TOML. The service reads "
              "/etc/onecopy/config.toml. Each key below is shown with its default. A key that is "
              "not set "
              "has its default; an unknown key is an error. Flags of onecopyd override the file. "
              "`onecopyd config check FILE` reports every mistake in a file, and `onecopyd config "
              "default` "
              "prints a file with every key.") +
          "\n";
  text += Heading("KEYS ABOVE THE FIRST SECTION");
  text += Item(Bold("version") + " = " + std::to_string(config::kVersion),
               "The version of the file's format. Only this version exists");
  text += Keys(config::TopKeys());
  for (const config::SectionSpec& section : config::SectionsToRead(schema)) {
    text += Section(section);
  }
  return text + SeeAlso(page.see_also);
}

}  // namespace onecopy::manual
