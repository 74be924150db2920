// A log of the test's own.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/log/text_output.h"

namespace onecopy::testing {

// While it lives, records become lines here, at the level "info"; afterwards they go to stderr.
class Captured {
 public:
  Captured() {
    log::SetOutput(log::MakeTextOutput(sink_));
    (void)log::SetLevel("info");
  }
  ~Captured() {
    log::SetOutput(log::MakeStderrOutput());
    (void)log::SetLevel("info");
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  // Whole lines, time and level included. Any thread.
  std::vector<std::string> Lines() const { return sink_->Lines(); }

 private:
  class Sink final : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::vector<std::string> Lines() {
      const std::lock_guard lock(mutex_);
      return lines_;
    }

   private:
    void sink_it_(const spdlog::details::log_msg& record) override {
      spdlog::memory_buf_t line;
      formatter_->format(record, line);
      lines_.emplace_back(line.data(), line.size());
      if (lines_.back().ends_with('\n')) lines_.back().pop_back();
    }
    void flush_() override {}

    std::vector<std::string> lines_;
  };

  const std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
};

}  // namespace onecopy::testing
