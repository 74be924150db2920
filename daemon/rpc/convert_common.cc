#include "daemon/rpc/convert_common.h"

#include <algorithm>

#include "proto/codec/utf8.h"

namespace onecopy::rpc {
namespace {

constexpr auto kParse = [](const auto& in, const Field& at) { return Parse(in, at); };

Result<engine::LaneBytes> ParseLane(const v1::Lane& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.device(), at / "device"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.peer(), at / "peer"));
  return engine::LaneBytes{in.device(), in.peer(), in.bytes()};
}

Result<engine::Attempt> ParseAttempt(const v1::Attempt& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path(), at / "path"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.outcome(), at / "outcome"));
  return engine::Attempt{in.path(), in.outcome(), in.bytes()};
}

void PrintStep(const Step& step, v1::Step* out) {
  out->set_node(ToUtf8(step.node));
  out->set_from(ToUtf8(step.from));
  out->set_to(ToUtf8(step.to));
  out->set_by(ToUtf8(step.by));
  out->set_loopback(step.loopback);
  out->set_emulated(step.emulated);
}

// A number of seconds or bytes per second that can be reckoned with.
Status CheckNumber(double number, const Field& at) {
  return number >= 0 && number < 1e30 ? OkStatus() : BadField(at, "is no sensible number");
}

}  // namespace

Result<std::string> ParseName(const std::string& name, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(name, at));
  return name;
}

Result<engine::PageRequest> ParsePage(int32_t size, const std::string& token, const Field& at) {
  if (size < 0) return BadField(at / "page_size", "is negative");
  ONECOPY_RETURN_IF_ERROR(CheckText(token, at / "page_token", kMostPageToken));
  return engine::PageRequest{size, token};
}

Result<engine::Endpoint> Parse(const v1::Endpoint& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.node(), at / "node"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.buffer(), at / "buffer"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.file(), at / "file", kMostText));
  engine::Endpoint value{in.node(), in.buffer(), {}, {}, in.file()};
  if (in.has_offset_bytes()) value.offset = in.offset_bytes();
  if (in.has_bytes()) value.bytes = in.bytes();
  return value;
}

void Print(const engine::Endpoint& value, v1::Endpoint* out) {
  out->set_node(ToUtf8(value.node));
  out->set_buffer(ToUtf8(value.buffer));
  if (value.offset) out->set_offset_bytes(*value.offset);
  if (value.bytes) out->set_bytes(*value.bytes);
  out->set_file(CutUtf8(ToUtf8(value.file), kMostText));
}

Result<plan::Policy> Parse(const v1::Policy& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path_glob(), at / "path_glob", kMostGlob));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.link(), at / "link"));
  plan::Policy value;
  value.path_glob = in.path_glob();
  if (in.has_at_most_copies()) value.at_most_copies = in.at_most_copies();
  value.link = in.link();
  value.allow_emulated = in.allow_emulated();
  return value;
}

void Print(const plan::Policy& value, v1::Policy* out) {
  out->set_path_glob(ToUtf8(value.path_glob));
  if (value.at_most_copies) out->set_at_most_copies(*value.at_most_copies);
  out->set_link(ToUtf8(value.link));
  out->set_allow_emulated(value.allow_emulated);
}

Result<engine::ExecutedStep> Parse(const v1::Step& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.node(), at / "node"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.from(), at / "from"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.to(), at / "to"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.by(), at / "by"));
  return engine::ExecutedStep{
      {in.node(), in.from(), in.to(), in.by(), in.loopback(), in.emulated()}, in.bytes()};
}

void Print(const engine::ExecutedStep& value, v1::Step* out) {
  PrintStep(value.step, out);
  out->set_bytes(value.bytes);
}

Result<Refusal> Parse(const v1::Refusal& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path(), at / "path"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.reason(), at / "reason"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.detail(), at / "detail", kMostText));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.remedy(), at / "remedy", kMostText));
  return Refusal{in.path(), in.reason(), in.detail(), in.remedy()};
}

void Print(const Refusal& value, v1::Refusal* out) {
  out->set_path(ToUtf8(value.path));
  out->set_reason(ToUtf8(value.reason));
  out->set_detail(CutUtf8(ToUtf8(value.detail), kMostText));
  out->set_remedy(CutUtf8(ToUtf8(value.remedy), kMostText));
}

Result<plan::Plan> Parse(const v1::Plan& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path(), at / "path"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.link(), at / "link"));
  ONECOPY_RETURN_IF_ERROR(
      CheckNumber(in.estimated_bytes_per_second(), at / "estimated_bytes_per_second"));
  ONECOPY_ASSIGN_OR_RETURN(const auto steps, ParseEach(in.steps(), at / "steps", kParse));
  if (in.copies() != steps.size()) return BadField(at / "copies", "is not the number of steps");
  plan::Plan value;
  value.path.name = in.path();
  value.path.link = in.link();
  for (const engine::ExecutedStep& step : steps) {
    value.path.emulated |= step.step.emulated;
    value.path.steps.push_back(step.step);
  }
  value.path.estimated_bytes_per_second = in.estimated_bytes_per_second();
  value.path.measured = in.measured();
  if (in.has_measure_time()) {
    ONECOPY_ASSIGN_OR_RETURN(value.path.measure_time,
                             Parse(in.measure_time(), at / "measure_time"));
  }
  value.path.measured_transfers = in.measured_transfers();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.tried_again(), at / "tried_again", kMostText));
  value.tried_again = in.tried_again();
  ONECOPY_ASSIGN_OR_RETURN(value.refused, ParseEach(in.refused(), at / "refused", kParse));
  return value;
}

void Print(const plan::Plan& value, v1::Plan* out) {
  out->set_path(ToUtf8(value.path.name));
  out->set_copies(value.path.copies());
  out->set_link(ToUtf8(value.path.link));
  for (const Step& step : value.path.steps) PrintStep(step, out->add_steps());
  out->set_estimated_bytes_per_second(value.path.estimated_bytes_per_second);
  out->set_measured(value.path.measured);
  if (value.path.measure_time != engine::WallTime()) {
    Print(value.path.measure_time, out->mutable_measure_time());
  }
  out->set_measured_transfers(value.path.measured_transfers);
  out->set_tried_again(CutUtf8(ToUtf8(value.tried_again), kMostText));
  for (const Refusal& refusal : value.refused) Print(refusal, out->add_refused());
}

Result<engine::ChecksumResult> Parse(const v1::Checksum& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.algorithm(), at / "algorithm"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.value(), at / "value"));
  return engine::ChecksumResult{in.algorithm(), in.value(), in.verified()};
}

Result<engine::Receipt> Parse(const v1::Receipt& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path(), at / "path"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.link(), at / "link"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.registration(), at / "registration"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.key(), at / "key"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.encryption(), at / "encryption"));
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.seconds(), at / "seconds"));
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.negotiation_seconds(), at / "negotiation_seconds"));
  engine::Receipt value;
  value.path = in.path();
  value.link = in.link();
  value.emulated = in.emulated();
  value.registration = in.registration();
  value.key = in.key();
  value.encryption = in.encryption();
  value.seconds = in.seconds();
  value.negotiation_seconds = in.negotiation_seconds();
  value.ranges = std::max<uint64_t>(in.ranges(), 1);
  value.merged_ranges = std::max<uint64_t>(in.merged_ranges(), 1);
  ONECOPY_ASSIGN_OR_RETURN(value.steps, ParseEach(in.steps(), at / "steps", kParse));
  if (in.copies() != value.steps.size()) {
    return BadField(at / "copies", "is not the number of steps");
  }
  ONECOPY_ASSIGN_OR_RETURN(value.lanes, ParseEach(in.lanes(), at / "lanes", ParseLane));
  if (in.has_checksum()) {
    ONECOPY_ASSIGN_OR_RETURN(value.checksum, Parse(in.checksum(), at / "checksum"));
  }
  ONECOPY_ASSIGN_OR_RETURN(value.refused, ParseEach(in.refused(), at / "refused", kParse));
  ONECOPY_ASSIGN_OR_RETURN(value.attempts, ParseEach(in.attempts(), at / "attempts", ParseAttempt));
  ONECOPY_ASSIGN_OR_RETURN(value.evidence, ParseMap(in.evidence(), at / "evidence"));
  return value;
}

void Print(const engine::Receipt& value, uint64_t bytes, v1::Receipt* out) {
  out->set_path(ToUtf8(value.path));
  out->set_copies(static_cast<uint32_t>(value.steps.size()));
  out->set_link(ToUtf8(value.link));
  out->set_emulated(value.emulated);
  out->set_registration(ToUtf8(value.registration));
  out->set_key(ToUtf8(value.key));
  out->set_encryption(ToUtf8(value.encryption));
  for (const engine::ExecutedStep& step : value.steps) Print(step, out->add_steps());
  for (const engine::LaneBytes& lane : value.lanes) {
    v1::Lane* lane_out = out->add_lanes();
    lane_out->set_device(ToUtf8(lane.device));
    lane_out->set_peer(ToUtf8(lane.peer));
    lane_out->set_bytes(lane.bytes);
  }
  out->set_seconds(value.seconds);
  if (value.seconds > 0) {
    out->set_bytes_per_second(static_cast<double>(bytes) / value.seconds);
  }
  out->set_negotiation_seconds(value.negotiation_seconds);
  out->set_ranges(value.ranges);
  out->set_merged_ranges(value.merged_ranges);
  if (value.checksum) {
    out->mutable_checksum()->set_algorithm(value.checksum->algorithm);
    out->mutable_checksum()->set_value(value.checksum->value);
    out->mutable_checksum()->set_verified(value.checksum->verified);
  }
  for (const Refusal& refusal : value.refused) Print(refusal, out->add_refused());
  for (const engine::Attempt& attempt : value.attempts) {
    v1::Attempt* attempt_out = out->add_attempts();
    attempt_out->set_path(ToUtf8(attempt.path));
    attempt_out->set_outcome(ToUtf8(attempt.outcome));
    attempt_out->set_bytes(attempt.bytes);
  }
  PrintMap(value.evidence, out->mutable_evidence());
}

}  // namespace onecopy::rpc
