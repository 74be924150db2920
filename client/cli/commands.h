// The commands of `onecopy`, by groups. Each function adds its commands to the program; the one
// that is typed puts itself into `chosen`.
#pragma once

#include <CLI/CLI.hpp>

#include "client/cli/session.h"

namespace onecopy::cli {

void AddCp(CLI::App& program, Command& chosen);
void AddExplain(CLI::App& program, Command& chosen);
void AddBuffer(CLI::App& program, Command& chosen);
// The commands of `onecopy buffer` about what arrives.
void AddArrivals(CLI::App& buffer, Command& chosen);
void AddGrant(CLI::App& program, Command& chosen);
void AddExport(CLI::App& program, Command& chosen);
void AddTransfer(CLI::App& program, Command& chosen);
void AddNode(CLI::App& program, Command& chosen);
void AddProbe(CLI::App& program, Command& chosen);
void AddDoctor(CLI::App& program, Command& chosen);
void AddInit(CLI::App& program, Command& chosen);
void AddCert(CLI::App& program, Command& chosen);
void AddNixlPluginDir(CLI::App& program, Command& chosen);
void AddTop(CLI::App& program, Command& chosen);

}  // namespace onecopy::cli
