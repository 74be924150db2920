// Rows for programs; bench/README.md says what each key means.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/row.h"
#include "onecopy/result.h"

namespace onecopy::bench {

// Where and when rows were measured, as each of them says: rows of several runs can be put
// together.
struct RunFacts {
  std::string machine = {};  // "AMD EPYC 9654, 32 cores, 2 × NVIDIA H200"
  std::string time = {};     // of the run's begin, "2026-11-21T20:10:00Z"
  std::string version = {};  // of onecopy-bench
};

// A JSON list with one object for each row, ending in a newline.
std::string ToJson(const std::vector<Row>& rows, const RunFacts& run);

// A row of such a list.
struct RecordedRow {
  Row row;
  RunFacts run;
};

// What ToJson wrote, or several such lists put together. INVALID_ARGUMENT (BAD_ARGUMENT), which
// says where and what is wrong, for anything else.
Result<std::vector<RecordedRow>> FromJson(const std::string& text);

}  // namespace onecopy::bench
