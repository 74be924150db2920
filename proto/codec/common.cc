#include <algorithm>

#include "proto/codec/codec.h"
#include "proto/codec/utf8.h"

namespace onecopy::codec {
namespace {

constexpr auto kParseCommon = [](const auto& in, const Field& at) { return Parse(in, at); };

void PrintStep(const Step& step, v1::Step* out) {
  out->set_node(ToUtf8(step.node));
  out->set_from(ToUtf8(step.from));
  out->set_to(ToUtf8(step.to));
  out->set_by(ToUtf8(step.by));
  out->set_loopback(step.loopback);
  out->set_emulated(step.emulated);
}

}  // namespace

Result<Endpoint> Parse(const v1::Endpoint& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.node(), at / "node"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.buffer(), at / "buffer"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.file(), at / "file", kMaxText));
  Endpoint value{
      in.node(),       in.buffer(), {}, {}, in.file(), in.fd_handle(), in.direct_fd_handle(),
      in.is_new_file()};
  if (in.has_offset_bytes()) value.offset_bytes = in.offset_bytes();
  if (in.has_bytes()) value.bytes = in.bytes();
  return value;
}

void Print(const Endpoint& value, v1::Endpoint* out) {
  out->set_node(value.node);
  out->set_buffer(value.buffer);
  if (value.offset_bytes) out->set_offset_bytes(*value.offset_bytes);
  if (value.bytes) out->set_bytes(*value.bytes);
  out->set_file(value.file);
  out->set_fd_handle(value.fd_handle);
  out->set_direct_fd_handle(value.direct_fd_handle);
  out->set_is_new_file(value.is_new_file);
}

Result<Policy> Parse(const v1::Policy& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path_glob(), at / "path_glob", kMaxGlob));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.link(), at / "link"));
  Policy value;
  value.path_glob = in.path_glob();
  if (in.has_at_most_copies()) value.at_most_copies = in.at_most_copies();
  value.link = in.link();
  value.allow_emulated = in.allow_emulated();
  return value;
}

void Print(const Policy& value, v1::Policy* out) {
  out->set_path_glob(value.path_glob);
  if (value.at_most_copies) out->set_at_most_copies(*value.at_most_copies);
  out->set_link(value.link);
  out->set_allow_emulated(value.allow_emulated);
}

Result<Pacing> Parse(const v1::Pacing& in, const Field& at) {
  Pacing value;
  value.rate_limit_bytes_per_second = in.rate_limit_bytes_per_second();
  if (value.rate_limit_bytes_per_second != 0 &&
      value.rate_limit_bytes_per_second < kMinRateLimitBytesPerSecond) {
    return BadField(at / "rate_limit_bytes_per_second",
                    "is " + std::to_string(value.rate_limit_bytes_per_second) +
                        ": it must be at least " + std::to_string(kMinRateLimitBytesPerSecond) +
                        ", or 0 for no limit");
  }
  switch (in.priority()) {
    case v1::LOW:
      value.priority = Priority::kLow;
      break;
    case v1::HIGH:
      value.priority = Priority::kHigh;
      break;
    case v1::PRIORITY_UNSPECIFIED:
    case v1::NORMAL:
      break;
    default:
      return BadField(at / "priority", "is not one of the enum Priority");
  }
  return value;
}

void Print(const Pacing& value, v1::Pacing* out) {
  out->set_rate_limit_bytes_per_second(value.rate_limit_bytes_per_second);
  out->set_priority(value.priority == Priority::kLow    ? v1::LOW
                    : value.priority == Priority::kHigh ? v1::HIGH
                                                        : v1::NORMAL);
}

Result<ExecutedStep> Parse(const v1::Step& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.node(), at / "node"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.from(), at / "from"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.to(), at / "to"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.by(), at / "by"));
  return ExecutedStep{{in.node(), in.from(), in.to(), in.by(), in.loopback(), in.emulated()},
                      in.bytes()};
}

void Print(const ExecutedStep& value, v1::Step* out) {
  PrintStep(value.step, out);
  out->set_bytes(value.bytes);
}

Result<Refusal> Parse(const v1::Refusal& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path(), at / "path"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.reason(), at / "reason"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.detail(), at / "detail", kMaxText));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.remedy(), at / "remedy", kMaxText));
  return Refusal{in.path(), in.reason(), in.detail(), in.remedy()};
}

void Print(const Refusal& value, v1::Refusal* out) {
  out->set_path(ToUtf8(value.path));
  out->set_reason(ToUtf8(value.reason));
  out->set_detail(CutUtf8(ToUtf8(value.detail), kMaxText));
  out->set_remedy(CutUtf8(ToUtf8(value.remedy), kMaxText));
}

Result<Plan> Parse(const v1::Plan& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path(), at / "path"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.link(), at / "link"));
  ONECOPY_RETURN_IF_ERROR(
      CheckNumber(in.estimated_bytes_per_second(), at / "estimated_bytes_per_second"));
  Plan value;
  value.path = in.path();
  value.link = in.link();
  ONECOPY_ASSIGN_OR_RETURN(const auto steps, ParseEach(in.steps(), at / "steps", kParseCommon));
  for (const ExecutedStep& step : steps) value.steps.push_back(step.step);
  if (at.strict() && in.copies() != value.copies()) {
    return BadField(at / "copies", "is not the number of steps");
  }
  value.estimated_bytes_per_second = in.estimated_bytes_per_second();
  value.measured = in.measured();
  if (in.has_measure_time()) {
    ONECOPY_ASSIGN_OR_RETURN(value.measure_time, Parse(in.measure_time(), at / "measure_time"));
  }
  value.measured_transfers = in.measured_transfers();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.tried_again(), at / "tried_again", kMaxText));
  value.tried_again = in.tried_again();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.placement(), at / "placement", kMaxText));
  value.placement = in.placement();
  ONECOPY_ASSIGN_OR_RETURN(value.refused, ParseEach(in.refused(), at / "refused", kParseCommon));
  return value;
}

void Print(const Plan& value, v1::Plan* out) {
  out->set_path(ToUtf8(value.path));
  out->set_copies(static_cast<uint32_t>(value.copies()));
  out->set_link(ToUtf8(value.link));
  for (const Step& step : value.steps) PrintStep(step, out->add_steps());
  out->set_estimated_bytes_per_second(value.estimated_bytes_per_second);
  out->set_measured(value.measured);
  if (value.measure_time != WallTime()) Print(value.measure_time, out->mutable_measure_time());
  out->set_measured_transfers(value.measured_transfers);
  out->set_tried_again(CutUtf8(ToUtf8(value.tried_again), kMaxText));
  out->set_placement(CutUtf8(ToUtf8(value.placement), kMaxText));
  for (const Refusal& refusal : value.refused) Print(refusal, out->add_refused());
}

Result<LaneBytes> Parse(const v1::Lane& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.device(), at / "device"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.peer(), at / "peer"));
  return LaneBytes{in.device(), in.peer(), in.bytes()};
}

void Print(const LaneBytes& value, v1::Lane* out) {
  out->set_device(ToUtf8(value.device));
  out->set_peer(ToUtf8(value.peer));
  out->set_bytes(value.bytes);
}

Result<ChecksumResult> Parse(const v1::Checksum& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.algorithm(), at / "algorithm"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.value(), at / "value"));
  return ChecksumResult{in.algorithm(), in.value(), in.verified()};
}

void Print(const ChecksumResult& value, v1::Checksum* out) {
  out->set_algorithm(ToUtf8(value.algorithm));
  out->set_value(ToUtf8(value.value));
  out->set_verified(value.verified);
}

Result<Attempt> Parse(const v1::Attempt& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path(), at / "path"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.outcome(), at / "outcome"));
  return Attempt{in.path(), in.outcome(), in.bytes()};
}

void Print(const Attempt& value, v1::Attempt* out) {
  out->set_path(ToUtf8(value.path));
  out->set_outcome(ToUtf8(value.outcome));
  out->set_bytes(value.bytes);
}

Result<Receipt> Parse(const v1::Receipt& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path(), at / "path"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.link(), at / "link"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.registration(), at / "registration"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.key(), at / "key"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.encryption(), at / "encryption"));
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.seconds(), at / "seconds"));
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.bytes_per_second(), at / "bytes_per_second"));
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.negotiation_seconds(), at / "negotiation_seconds"));
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.asked_seconds(), at / "asked_seconds"));
  Receipt value;
  value.path = in.path();
  value.link = in.link();
  value.emulated = in.emulated();
  value.registration = in.registration();
  value.key = in.key();
  value.encryption = in.encryption();
  value.seconds = in.seconds();
  value.bytes_per_second = in.bytes_per_second();
  value.negotiation_seconds = in.negotiation_seconds();
  value.asked_seconds = in.asked_seconds();
  value.ranges = std::max<uint64_t>(in.ranges(), 1);  // 0 from one that has not begun to count
  value.merged_ranges = std::max<uint64_t>(in.merged_ranges(), 1);
  ONECOPY_ASSIGN_OR_RETURN(value.steps, ParseEach(in.steps(), at / "steps", kParseCommon));
  if (at.strict() && in.copies() != value.copies()) {
    return BadField(at / "copies", "is not the number of steps");
  }
  ONECOPY_ASSIGN_OR_RETURN(value.lanes, ParseEach(in.lanes(), at / "lanes", kParseCommon));
  if (in.has_checksum()) {
    ONECOPY_ASSIGN_OR_RETURN(value.checksum, Parse(in.checksum(), at / "checksum"));
  }
  ONECOPY_ASSIGN_OR_RETURN(value.refused, ParseEach(in.refused(), at / "refused", kParseCommon));
  ONECOPY_ASSIGN_OR_RETURN(value.attempts, ParseEach(in.attempts(), at / "attempts", kParseCommon));
  ONECOPY_ASSIGN_OR_RETURN(value.evidence, ParseMap(in.evidence(), at / "evidence"));
  return value;
}

void Print(const Receipt& value, v1::Receipt* out) {
  out->set_path(ToUtf8(value.path));
  out->set_copies(static_cast<uint32_t>(value.copies()));
  out->set_link(ToUtf8(value.link));
  out->set_emulated(value.emulated);
  out->set_registration(ToUtf8(value.registration));
  out->set_key(ToUtf8(value.key));
  out->set_encryption(ToUtf8(value.encryption));
  for (const ExecutedStep& step : value.steps) Print(step, out->add_steps());
  for (const LaneBytes& lane : value.lanes) Print(lane, out->add_lanes());
  out->set_seconds(value.seconds);
  out->set_bytes_per_second(value.bytes_per_second);
  out->set_negotiation_seconds(value.negotiation_seconds);
  out->set_asked_seconds(value.asked_seconds);
  out->set_ranges(value.ranges);
  out->set_merged_ranges(value.merged_ranges);
  if (value.checksum) Print(*value.checksum, out->mutable_checksum());
  for (const Refusal& refusal : value.refused) Print(refusal, out->add_refused());
  for (const Attempt& attempt : value.attempts) Print(attempt, out->add_attempts());
  PrintMap(value.evidence, out->mutable_evidence());
}

}  // namespace onecopy::codec
