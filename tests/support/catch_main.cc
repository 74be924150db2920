// The main function of every test program but those that bring their own. A program may hold the
// cases of many: called by another name than its own, NAME, it is the one of NAME_test.cc.
#include <filesystem>
#include <string>

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

namespace {

// Whatever cases are asked for, of this file alone: names and tags that are separated by commas are
// alternatives, those that are not go together.
std::string OfFile(const std::string& asked, const std::string& tag) {
  std::string made;
  bool quoted = false;
  for (size_t i = 0; i < asked.size(); ++i) {
    const char c = asked[i];
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) made += tag;
    made += c;
    if (c == '\\' && i + 1 < asked.size()) made += asked[++i];
  }
  return made + tag;
}

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int failed = session.applyCommandLine(argc, argv); failed != 0) return failed;
#if !__has_include(<catch2/catch_session.hpp>)  // version 2 passes where nothing is to be run
  session.configData().warnings = static_cast<Catch::WarnAbout::What>(
      session.configData().warnings | Catch::WarnAbout::NoTests);
#endif
  const std::string name = std::filesystem::path(argv[0]).filename();
  const std::string own = std::filesystem::read_symlink("/proc/self/exe").filename();
  if (name != own) {
    Catch::ConfigData& config = session.configData();
    const std::string tag = "[#" + name + "_test]";
    config.filenamesAsTags = true;
    if (config.testsOrTags.empty()) config.testsOrTags.push_back("");
    for (std::string& asked : config.testsOrTags) asked = OfFile(asked, tag);
  }
  return session.run();
}
