// Completions for shells: commands, options and, where one belongs, files. None asks a daemon.
#pragma once

#include <string>

#include "deploy/manual/command.h"

namespace onecopy::manual {

std::string BashCompletion(const Command& program);
std::string ZshCompletion(const Command& program);
std::string FishCompletion(const Command& program);

// "_onecopy_bench": the name of the shell function of that program or command.
std::string FunctionName(const std::string& path);

// Whether a file or a folder may be named behind the command.
bool TakesFiles(const Command& command);

// The command's own options and those of the commands above it.
std::vector<Option> OptionsOf(const Command& command);

}  // namespace onecopy::manual
