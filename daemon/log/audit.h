// The audit log: who asked for what, from where, and whether it was allowed.
//
//   audit::Write({.who = "1000@east", .from = "pid 17", .what = "CreateGrant", .on = "a",
//                 .why = status});
//
// Any thread may do anything here at any time. It has a level of its own, and goes where the log
// goes unless it has a file of its own. For each caller, a number of records per minute is written,
// and then how many were left out. So one caller cannot crowd out the records of others.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/log/log.h"
#include "onecopy/status.h"

namespace onecopy::audit {

enum class Level {
  kOff,
  kDenied,  // what was refused for want of a right, an identity or room
  kRights,  // also what was allowed and changes what others may do, or is for administrators alone
  kAll,     // every decision
};

struct Decision {
  std::string_view who;  // "1000@east", "node west", "nobody" without an identity
  std::string_view from;
  std::string_view what;  // the request's name
  std::string_view on;    // a buffer, a transfer, …; may be empty
  Status why;             // how it was answered
  bool rights = false;    // see Level
  // Whose allowance of records it takes; empty: that of `who`.
  std::string_view account = {};
};

struct Options {
  Level level = Level::kRights;
  uint32_t most_per_minute = 120;  // records per caller
  std::string file = {};           // created, appended to; empty: the log's own output
};

// "off", "denied", "rights", "all". INVALID_ARGUMENT for any other name.
Result<Level> ParseLevel(std::string_view name);

// Before the threads that serve; before that, and in tests, as by default. Fails where the file
// cannot be written.
Status Open(const Options& options);
// For tests: records go to `output`, without any bound on their number but this.
void SetOutput(std::shared_ptr<log::Output> output, const Options& options);

// Whether this is a refusal that the audit log is about: no right, no identity, or no room left.
bool IsDenial(const Status& status);

// A decision: a denial, an allowed request, or one that came to nothing for another reason, which
// is not a decision and only written by kAll.
void Write(const Decision& decision);

// How many records were never written: beyond a caller's allowance, or because the audit log's own
// file did not keep up. What goes to the log is counted there.
uint64_t Dropped();

}  // namespace onecopy::audit
