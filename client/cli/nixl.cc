#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "client/cli/commands.h"
#include "client/nixl/plugin_folder.h"
#include "onecopy/reasons.h"

namespace onecopy::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string packages;
  std::string nixl;
  std::string plugin;
  std::string cache;
};

// The Python package has this program as site-packages/onecopy/bin/onecopy.
Result<fs::path> OwnPackages() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path package = program.parent_path().parent_path();
  if (!error && program.parent_path().filename() == "bin" && package.filename() == "onecopy") {
    return package.parent_path();
  }
  return Status(Code::kFailedPrecondition, reasons::kNixlMissing,
                "this program, " + program.string() +
                    ", is not the one in the Python package, which contains the plug-in",
                "install the package beside NIXL (pip install onecopy) and run its `onecopy`");
}

// The folder of that variable; empty: none, as of a service.
fs::path FolderOf(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text == '/' ? fs::path(text) : fs::path();
}

// Never one that is the same for all users.
Result<fs::path> DefaultCache() {
  if (const fs::path cache = FolderOf("XDG_CACHE_HOME"); !cache.empty()) {
    return cache / "onecopy" / "nixl";
  }
  if (const fs::path home = FolderOf("HOME"); !home.empty()) {
    return home / ".cache" / "onecopy" / "nixl";
  }
  return Status(
      Code::kFailedPrecondition, reasons::kNotApplicable,
      "neither HOME nor XDG_CACHE_HOME names a folder in which to make the plug-in folder",
      "name a folder that you own with --cache, such as the service's StateDirectory");
}

Status PrintPluginFolder(Session& session, const Options& options) {
  nixl::PluginFolderRequest request{.packages = options.packages,
                                    .nixl = options.nixl,
                                    .plugin = options.plugin,
                                    .cache = options.cache};
  if (options.packages.empty() || options.plugin.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(const fs::path own, OwnPackages());
    if (options.packages.empty()) request.packages = own;
    if (options.plugin.empty()) {
      request.plugin = own / "onecopy" / "nixl" / "libplugin_ONECOPY.so";
    }
  }
  if (options.cache.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(request.cache, DefaultCache());
  }
  ONECOPY_ASSIGN_OR_RETURN(const fs::path folder, nixl::MakePluginFolder(request));
  if (session.json()) {
    Print(session.out(), {{"plugin_dir", folder.string()}});
  } else {
    session.out() << folder.string() << "\n";
  }
  return OkStatus();
}

}  // namespace

void AddNixlPluginDir(CLI::App& program, Command& chosen) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "nixl-plugin-dir", "Print a folder for NIXL_PLUGIN_DIR that has NIXL's plug-ins and ONECOPY");
  command
      ->add_option(
          "--packages", options->packages,
          "site-packages that contains NIXL's wheel (else the one of this program's package)")
      ->type_name("DIR");
  command
      ->add_option("--nixl", options->nixl,
                   "The package to use if both are installed: nixl_cu12 or nixl_cu13")
      ->type_name("PACKAGE");
  command->add_option("--plugin", options->plugin, "Use another libplugin_ONECOPY.so")
      ->type_name("FILE");
  command
      ->add_option(
          "--cache", options->cache,
          "Parent of the folder (else $XDG_CACHE_HOME/onecopy/nixl, ~/.cache/onecopy/nixl)")
      ->type_name("DIR");
  command->footer(R"(Needs no daemon. NIXL's own plug-ins stay unchanged: the folder contains links.

Example:
  export NIXL_PLUGIN_DIR=$(onecopy nixl-plugin-dir))");
  command->callback([options, &chosen] {
    chosen = [options](Session& session) { return PrintPluginFolder(session, *options); };
  });
}

}  // namespace onecopy::cli
