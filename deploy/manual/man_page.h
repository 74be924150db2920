// The manual page of a program.
#pragma once

#include <string>
#include <vector>

#include "deploy/manual/command.h"

namespace onecopy::manual {

struct ManPage {
  int section = 1;
  std::string version;                // "onecopy 0.1.0"
  std::vector<std::string> see_also;  // "onecopyd(8)"
};

std::string PrintManPage(const Command& program, const ManPage& page);

// The last part of every page.
std::string SeeAlso(const std::vector<std::string>& pages);

}  // namespace onecopy::manual
