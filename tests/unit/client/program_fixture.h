// Command lines, run in this process against a daemon in this process.
#pragma once

#include <sstream>

#include "client/cli/output/document.h"
#include "client/cli/program.h"
#include "tests/support/text.h"
#include "tests/unit/client/file_copy_fixture.h"

namespace onecopy::testing {

struct Run {
  int exit_status;
  std::string out;
  std::string err;

  cli::Json json() const { return cli::Json::parse(out); }
};

inline Run Onecopy(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const int exit_status = cli::RunProgram(arguments, out, err);
  return {exit_status, out.str(), err.str()};
}

// Buffer "a" of 1,000 bytes on east, which is asked, and "b" of 2,000 on west.
struct ProgramFixture : FileCopyFixture {
  explicit ProgramFixture(const ServedCluster::Change& change = {}) : FileCopyFixture(change) {
    daemon.AddBuffer("east", "a", 1000);
    daemon.AddBuffer("west", "b", 2000);
  }

  Run operator()(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--run-dir", dir.path()});
    return Onecopy(arguments);
  }

  // Starts a transfer that is not waited for, and returns its id.
  std::string Detach() {
    const std::string id = (*this)({"cp", "a", "west:b", "--detach", "--quiet"}).out;
    return id.substr(0, id.find('\n'));
  }
};

}  // namespace onecopy::testing
