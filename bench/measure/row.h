// A row: the bench's result for one work at one size.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/status.h"

namespace onecopy::bench {

// Of a row's values. kBytesPerSecond, kPerSecond: more is better; the others: less is.
enum class Unit {
  kBytesPerSecond,
  kBytes,
  kCores,
  kSeconds,
  kSecondsPerGigabyte,  // of CPU time, per 10^9 bytes of payload
  kBytesPerByte,        // through a memory, per byte of payload
  kPerSecond,           // how often in a second
};

// "B/s" and the like.
std::string_view UnitName(Unit unit);

enum class RowStatus { kOk, kWaived, kFailed };

// "OK", "WAIVED", "FAILED".
std::string_view RowStatusName(RowStatus status);

// Why a row FAILED, where no part of onecopy did.
inline constexpr std::string_view kBelowFloor = "BELOW_FLOOR";
inline constexpr std::string_view kOverLimit = "OVER_LIMIT";
inline constexpr std::string_view kPayloadWrong = "PAYLOAD_WRONG";
inline constexpr std::string_view kToolFailed = "TOOL_FAILED";  // another project's program

struct Row {
  std::string work = {};
  std::string path = {};  // that the bytes took; empty where none move
  uint64_t bytes = 0;     // payload of one sample
  Unit unit = Unit::kBytesPerSecond;
  std::vector<double> values = {};  // one for each sample, in order
  std::string ceiling = {};         // what the same samples are held against; empty: nothing
  std::vector<double> ceiling_values = {};  // as long as `values` where there is a ceiling
  std::optional<double> floor = {};         // the least ratio of values to ceiling that is OK
  std::optional<double> roof = {};          // the largest one, where less is better
  std::optional<double> target = {};        // the ratio to reach, which decides about nothing
  std::optional<double> limit = {};         // the largest median that is OK
  std::optional<bool> verified = {};  // whether every payload arrived unchanged; absent: none moved
  RowStatus status = RowStatus::kOk;
  std::string reason = {};                     // of WAIVED and FAILED: a stable name
  std::string detail = {};                     // the same for people
  std::map<std::string, double> details = {};  // further figures, named with their unit

  // Absent without a ceiling or without a sample.
  std::optional<double> ratio() const;
};

// The row as one that cannot run here, or that failed, because of `why`.
Row Waived(Row row, const Status& why);
Row Failed(Row row, const Status& why);

// Decides whether what was measured is good enough.
Row Evaluated(Row row);

}  // namespace onecopy::bench
