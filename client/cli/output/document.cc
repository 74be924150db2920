#include "client/cli/output/document.h"

#include <cmath>

#include "client/cli/output/time.h"

namespace onecopy::cli {
namespace {

Json StepToJson(const Step& step) {
  return {{"from", step.from},
          {"to", step.to},
          {"by", step.by},
          {"node", step.node},
          {"loopback", step.loopback},
          {"emulated", step.emulated}};
}

Json StepsToJson(const std::vector<ExecutedStep>& steps) {
  Json list = Json::array();
  for (const ExecutedStep& step : steps) {
    list.push_back(StepToJson(step.step));
    list.back()["bytes"] = step.bytes;
  }
  return list;
}

Json LanesToJson(const std::vector<LaneBytes>& lanes) {
  Json list = Json::array();
  for (const LaneBytes& lane : lanes) {
    list.push_back({{"device", lane.device}, {"peer", lane.peer}, {"bytes", lane.bytes}});
  }
  return list;
}

Json AttemptsToJson(const std::vector<Attempt>& attempts) {
  Json list = Json::array();
  for (const Attempt& attempt : attempts) {
    list.push_back(
        {{"path", attempt.path}, {"outcome", attempt.outcome}, {"bytes", attempt.bytes}});
  }
  return list;
}

Json ChecksumToJson(const std::optional<ChecksumResult>& checksum) {
  if (!checksum.has_value()) return nullptr;
  return {{"algorithm", checksum->algorithm},
          {"value", checksum->value},
          {"verified", checksum->verified}};
}

// A whole number, as rates are compared and not computed with.
Json RateToJson(double bytes_per_second) {
  if (!std::isfinite(bytes_per_second) || bytes_per_second < 0) return 0;
  return static_cast<uint64_t>(std::llround(bytes_per_second));
}

Json EvidenceToJson(const std::map<std::string, std::string>& evidence) {
  Json object = Json::object();
  for (const auto& [name, value] : evidence) object[name] = value;
  return object;
}

// What the text beside it cannot be trusted to say, where the bytes are no UTF-8.
std::string Hex(const std::string& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

Json TimeToJson(const std::optional<WallTime>& time) {
  const std::string text = time.has_value() ? FormatTime(*time) : "";
  return text.empty() ? Json(nullptr) : Json(text);
}

Json ErrorToJson(const Status& error) {
  return {{"code", CodeName(error.code())},
          {"reason", error.reason()},
          {"message", error.message()},
          {"remedy", error.remedy()},
          {"refused", ListToJson(error.refusals())}};
}

// An end, and how many more buffers there are: "east:a@0+4096 and 2 more".
std::string EndText(const Endpoint& end, uint64_t buffers) {
  return end.ToString() + (buffers > 1 ? " and " + std::to_string(buffers - 1) + " more" : "");
}

}  // namespace

Move MoveOf(const TransferInfo& transfer) {
  return {transfer.id,
          transfer.state,
          EndText(transfer.source, transfer.source_buffers),
          EndText(transfer.destination, transfer.destination_buffers),
          transfer.bytes,
          transfer.receipt,
          transfer.parts,
          std::nullopt,
          transfer.trace};
}

Json ToJson(const Refusal& refusal) {
  return {{"path", refusal.path},
          {"reason", refusal.reason},
          {"detail", refusal.detail},
          {"remedy", refusal.remedy}};
}

Json ToJson(const Status& error) { return {{"error", ErrorToJson(error)}}; }

Json ToJson(const Move& move) {
  const Receipt& receipt = move.receipt;
  Json document = {{"id", move.id.str()},
                   {"state", StateName(move.state)},
                   {"source", move.source},
                   {"destination", move.destination},
                   {"bytes", move.bytes},
                   {"ranges", receipt.ranges},
                   {"merged_ranges", receipt.merged_ranges},
                   {"path", receipt.path},
                   {"copies", receipt.copies()},
                   {"link", receipt.link},
                   {"emulated", receipt.emulated},
                   {"registration", receipt.registration},
                   {"key", receipt.key},
                   {"encryption", receipt.encryption},
                   {"steps", StepsToJson(receipt.steps)},
                   {"lanes", LanesToJson(receipt.lanes)},
                   {"seconds", receipt.seconds},
                   {"asked_seconds", receipt.asked_seconds},
                   {"bytes_per_second", RateToJson(receipt.bytes_per_second)},
                   {"negotiation_seconds", receipt.negotiation_seconds},
                   {"checksum", ChecksumToJson(receipt.checksum)},
                   {"refused", ListToJson(receipt.refused)},
                   {"attempts", AttemptsToJson(receipt.attempts)},
                   {"evidence", EvidenceToJson(receipt.evidence)}};
  if (move.parts > 0) document["parts"] = move.parts;
  if (move.proven_bytes) document["proven_bytes"] = *move.proven_bytes;
  if (!move.trace.empty()) document["trace"] = move.trace.str();
  return document;
}

Json ToJson(const TransferInfo& transfer) {
  Json document = ToJson(MoveOf(transfer));
  document["role"] = RoleName(transfer.role);
  if (!transfer.part_of.empty()) document["part_of"] = transfer.part_of.str();
  document["bytes_done"] = transfer.bytes_done;
  document["waits_for"] = transfer.waits_for;
  document["owner"] = transfer.owner;
  document["create_time"] = TimeToJson(transfer.create_time);
  document["end_time"] = TimeToJson(transfer.end_time);
  document["error"] = transfer.error.ok() ? Json(nullptr) : ErrorToJson(transfer.error);
  return document;
}

Json ToJson(const ArrayShape& array) {
  return {{"dtype", array.dtype},
          {"item_bytes", array.item_bytes},
          {"shape", array.shape},
          {"strides", array.strides}};
}

Json ToJson(const BufferInfo& buffer) {
  return {{"node", buffer.node},
          {"name", buffer.name},
          {"id", buffer.id},
          {"memory", buffer.memory},
          {"device", buffer.device},
          {"bytes", buffer.bytes},
          {"owner", buffer.owner},
          {"registered", buffer.registered},
          {"form", buffer.form},
          {"create_time", TimeToJson(buffer.create_time)},
          {"transfers", buffer.transfers},
          {"keep_arrivals", buffer.keep_arrivals},
          {"view_of", buffer.view_of.empty() ? Json(nullptr) : Json(buffer.view_of)},
          {"offset_bytes", buffer.offset_bytes},
          {"array", buffer.array ? ToJson(*buffer.array) : Json(nullptr)}};
}

Json ToJson(const Arrival& arrival) {
  return {{"buffer", arrival.buffer},
          {"buffer_id", arrival.buffer_id},
          {"sequence", arrival.sequence},
          {"transfer", arrival.transfer.empty() ? Json(nullptr) : Json(arrival.transfer.str())},
          {"from", arrival.from},
          {"offset_bytes", arrival.range.offset},
          {"bytes", arrival.range.bytes},
          {"payload_bytes", arrival.bytes},
          {"message", arrival.message},
          {"message_hex", Hex(arrival.message)},
          {"time", TimeToJson(arrival.time)}};
}

Json ToJson(const GrantInfo& grant) {
  return {{"id", grant.id.str()},
          {"buffer", grant.buffer},
          {"offset_bytes", grant.range.offset},
          {"bytes", grant.range.bytes},
          {"to", grant.to},
          {"read", grant.read},
          {"write", grant.write},
          {"expire_time", TimeToJson(grant.expire_time)},
          {"owner", grant.owner},
          {"node", grant.node}};
}

Json ToJson(const ExportInfo& one) {
  return {{"node", one.node},
          {"name", one.name},
          {"path", one.path},
          {"read", one.read},
          {"write", one.write}};
}

Json PlanToJson(const std::string& source, const std::string& destination, const Plan& plan) {
  Json steps = Json::array();
  for (const Step& step : plan.steps) steps.push_back(StepToJson(step));
  const std::string measured = FormatTime(plan.measure_time);
  return {{"source", source},
          {"destination", destination},
          {"path", plan.path},
          {"copies", plan.copies()},
          {"link", plan.link},
          {"steps", std::move(steps)},
          {"estimated_bytes_per_second", RateToJson(plan.estimated_bytes_per_second)},
          {"measured", plan.measured},
          {"measure_time", measured.empty() ? Json(nullptr) : Json(measured)},
          {"measured_transfers", plan.measured_transfers},
          {"tried_again", plan.tried_again},
          {"placement", plan.placement},
          {"refused", ListToJson(plan.refused)}};
}

void Print(std::ostream& out, const Json& document) {
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void PrintLine(std::ostream& out, const Json& document) {
  out << document.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
}

}  // namespace onecopy::cli
