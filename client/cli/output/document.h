// What `onecopy` prints for programs: JSON documents, whose keys others rely on.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "onecopy/arrival.h"
#include "onecopy/buffer.h"
#include "onecopy/node.h"
#include "onecopy/transfer.h"

namespace onecopy::cli {

using Json = nlohmann::ordered_json;  // keeps the order in which keys are written

// A move between any two ends, files included.
struct Move {
  TransferId id;
  TransferState state = TransferState::kSucceeded;
  std::string source;  // as endpoints are typed
  std::string destination;
  uint64_t bytes = 0;
  Receipt receipt;
  uint64_t parts = 0;  // of a file
  // Of a copy that was continued: what was at the destination already, beside `bytes`.
  std::optional<uint64_t> proven_bytes = {};
  TraceContext trace = {};
};

Move MoveOf(const TransferInfo& transfer);

Json ToJson(const Refusal& refusal);
Json ToJson(const Status& error);           // {"error": {…}}
Json ToJson(const Move& move);              // the receipt
Json ToJson(const TransferInfo& transfer);  // the receipt, and what else is known
Json ToJson(const BufferInfo& buffer);
Json ToJson(const GrantInfo& grant);
Json ToJson(const ExportInfo& one);
Json ToJson(const Arrival& arrival);
Json ToJson(const NodeInfo& node);
Json ToJson(const ProbeInfo& probe);
Json ToJson(const PathRateInfo& rate);
Json ToJson(const Topology& topology);
Json PlanToJson(const std::string& source, const std::string& destination, const Plan& plan);

template <typename Value>
Json ListToJson(const std::vector<Value>& values) {
  Json list = Json::array();
  for (const Value& value : values) list.push_back(ToJson(value));
  return list;
}

// One document and a new line. Bytes that are not UTF-8 are replaced.
void Print(std::ostream& out, const Json& document);
// The same in one line, written at once: one of many.
void PrintLine(std::ostream& out, const Json& document);

}  // namespace onecopy::cli
