#include "daemon/rpc/fields.h"

#include <algorithm>

#include "proto/codec/utf8.h"

namespace onecopy::rpc {
namespace {

constexpr int32_t kNanosPerSecond = 1'000'000'000;
constexpr int32_t kNanosPerMilli = 1'000'000;

}  // namespace

std::string Field::ToString() const {
  if (parent_ == nullptr) return {};
  std::string path = parent_->ToString();
  if (index_ >= 0) return path + "[" + std::to_string(index_) + "]";
  if (!path.empty()) path += '.';
  return path.append(name_);
}

Status BadField(const Field& at, const std::string& why, std::string_view reason) {
  return {Code::kInvalidArgument, reason, at.ToString() + ": " + why};
}

Status CheckText(const std::string& text, const Field& at, size_t most_bytes) {
  if (text.size() <= most_bytes) return OkStatus();
  return BadField(at, "has " + std::to_string(text.size()) + " bytes; at most " +
                          std::to_string(most_bytes) + " are taken");
}

Status CheckCount(size_t count, const Field& at) {
  if (count <= kMostItems) return OkStatus();
  return BadField(at, "has " + std::to_string(count) + " entries; at most " +
                          std::to_string(kMostItems) + " are taken");
}

Result<std::chrono::milliseconds> Parse(const google::protobuf::Duration& in, const Field& at) {
  if (in.seconds() < 0 || in.nanos() < 0) return BadField(at, "is negative");
  constexpr int64_t kMostSeconds = std::chrono::seconds(kMostDuration).count();
  if (in.nanos() >= kNanosPerSecond || in.seconds() >= kMostSeconds) {
    return BadField(at, "is no duration below ten years");
  }
  return std::chrono::milliseconds(in.seconds() * 1000 +
                                   (in.nanos() + kNanosPerMilli - 1) / kNanosPerMilli);
}

Result<engine::WallTime> Parse(const google::protobuf::Timestamp& in, const Field& at) {
  using Duration = engine::WallTime::duration;
  constexpr int64_t kMost =
      std::chrono::duration_cast<std::chrono::seconds>(Duration::max()).count();
  if (in.nanos() < 0 || in.nanos() >= kNanosPerSecond || in.seconds() >= kMost ||
      in.seconds() <= -kMost) {
    return BadField(at, "is no time");
  }
  return engine::WallTime(
      std::chrono::duration_cast<Duration>(std::chrono::seconds(in.seconds())) +
      std::chrono::duration_cast<Duration>(std::chrono::nanoseconds(in.nanos())));
}

void Print(std::chrono::milliseconds duration, google::protobuf::Duration* out) {
  duration = std::max(duration, std::chrono::milliseconds(0));
  out->set_seconds(duration.count() / 1000);
  out->set_nanos(static_cast<int32_t>(duration.count() % 1000) * kNanosPerMilli);
}

void Print(engine::WallTime time, google::protobuf::Timestamp* out) {
  const auto since = time.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  out->set_seconds(seconds.count());
  out->set_nanos(static_cast<int32_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds).count()));
}

Result<std::optional<std::chrono::milliseconds>> ParseLimit(bool present,
                                                            const google::protobuf::Duration& in,
                                                            const Field& at) {
  if (!present) return std::optional<std::chrono::milliseconds>();
  ONECOPY_ASSIGN_OR_RETURN(const std::chrono::milliseconds limit, Parse(in, at));
  if (limit.count() == 0) return BadField(at, "must be longer than nothing");
  return std::optional(limit);
}

Result<std::map<std::string, std::string>> ParseMap(const TextMap& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckCount(in.size(), at));
  std::map<std::string, std::string> value;
  for (const auto& [key, text] : in) {
    ONECOPY_RETURN_IF_ERROR(CheckText(key, at));
    ONECOPY_RETURN_IF_ERROR(CheckText(text, at / key, kMostText));
    value.emplace(key, text);
  }
  return value;
}

void PrintMap(const std::map<std::string, std::string>& value, TextMap* out) {
  for (const auto& [key, text] : value) (*out)[ToUtf8(key)] = CutUtf8(ToUtf8(text), kMostText);
}

}  // namespace onecopy::rpc
