// A log of the test's own.
#pragma once

#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/log/text_output.h"

namespace onecopy::testing {

// While it lives, records become lines here, at the level "info"; afterwards they go to stderr.
class Captured {
 public:
  Captured() {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_);
    log::SetOutput(log::MakeTextOutput(std::move(sink)));
    (void)log::SetLevel("info");
  }
  ~Captured() {
    log::SetOutput(log::MakeStderrOutput());
    (void)log::SetLevel("info");
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  // Whole lines, time and level included.
  std::vector<std::string> Lines() const {
    std::istringstream text(stream_.str());
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

 private:
  std::ostringstream stream_;
};

}  // namespace onecopy::testing
