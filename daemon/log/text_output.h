// Records as lines, through spdlog.
#pragma once

#include <memory>
#include <string>

#include "daemon/log/log.h"

namespace spdlog::sinks {
class sink;
}

namespace onecopy::log {

// "transfer ended transfer=17 path=tcp-staged": the message, then the fields; texts with blanks,
// quotes or anything escaped are quoted.
std::string TextOf(const Record& record);

// A value alone, escaped and without quotes.
std::string ValueOf(const Field& field);

// Lines with time and level on `sink`, which is safe on several threads (an "_mt" one).
std::shared_ptr<Output> MakeTextOutput(std::shared_ptr<spdlog::sinks::sink> sink);

// The same on standard error, in colours where that is a terminal. Waits for it.
std::shared_ptr<Output> MakeStderrOutput();

}  // namespace onecopy::log
