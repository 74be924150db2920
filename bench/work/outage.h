// A wire that loses everything, by the kernel's netem.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::bench {

// For as long as it lives, nothing that these network interfaces send arrives. Needs the right to
// change them, and that they have no queueing discipline of their own.
class Outage {
 public:
  static Result<std::unique_ptr<Outage>> Begin(const std::vector<std::string>& interfaces);
  ~Outage();
  Outage(const Outage&) = delete;
  Outage& operator=(const Outage&) = delete;

 private:
  Outage() = default;

  std::vector<std::string> cut_;
};

}  // namespace onecopy::bench
