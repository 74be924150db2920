// Other people's programs, as ceilings.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/mover.h"

namespace onecopy::bench {

// What such a program tells of itself.
struct ToolSaid {
  double bytes_per_second = 0;
  bool verified = true;  // false: it looked at what arrived, and it was wrong
};

struct ToolPrograms {
  std::vector<std::string> server = {};  // with its path; empty: there is none
  std::vector<std::string> client = {};
  // Reads one line of what the client prints. Empty where the rate is not there; it is asked about
  // every line until it is.
  std::function<std::optional<ToolSaid>(const std::string& line)> read = {};
};

// Runs the programs once for each sample: where there is a server, the client until it finds it.
// They choose their own payload, so filling and verifying is theirs.
class ToolMover final : public Mover {
 public:
  ToolMover(ToolPrograms programs, uint64_t bytes);

  Status Fill(uint64_t) override { return OkStatus(); }
  Result<Moved> Move() override;
  Result<bool> Verify(uint64_t) override { return verified_; }

 private:
  Result<ToolSaid> RunOnce();

  const ToolPrograms programs_;
  const uint64_t bytes_;
  bool verified_ = true;
};

// A program on $PATH. NOT_FOUND (FILE_NOT_FOUND) where it is not installed; `package` is what to
// install.
Result<std::string> FindTool(const std::string& name, const std::string& package);

// A TCP port of loopback that is free at this moment.
Result<std::string> FreePort();

}  // namespace onecopy::bench
