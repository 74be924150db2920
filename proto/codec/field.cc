#include "proto/codec/field.h"

#include <algorithm>

#include "proto/codec/utf8.h"

namespace onecopy::codec {
namespace {

constexpr int32_t kNanosPerSecond = 1'000'000'000;
constexpr int32_t kNanosPerMilli = 1'000'000;

}  // namespace

std::string Field::ToString() const {
  if (parent_ == nullptr) return {};
  std::string path = parent_->ToString();
  if (index_ >= 0) return path + "[" + std::to_string(index_) + "]";
  if (name_.empty()) return path;
  if (!path.empty()) path += '.';
  return path.append(name_);
}

Status Field::Spend(size_t text) const {
  if (!strict()) return OkStatus();
  for (const Field* field = this; field != nullptr; field = field->parent_) {
    if (field->most_text_ == 0) continue;
    if (text > field->most_text_ - field->spent_) {
      return BadField(*this, "has too much text: at most " + std::to_string(field->most_text_) +
                                 " bytes are accepted in total");
    }
    field->spent_ += text;
  }
  return OkStatus();
}

Status BadField(const Field& at, const std::string& why, std::string_view reason) {
  return {Code::kInvalidArgument, reason, at.ToString() + ": " + why};
}

Status CheckText(const std::string& text, const Field& at, size_t max_bytes) {
  if (!at.strict() || text.size() <= max_bytes) return at.Spend(text.size());
  return BadField(at, "has " + std::to_string(text.size()) + " bytes; at most " +
                          std::to_string(max_bytes) + " are taken");
}

Status CheckCount(size_t count, const Field& at) {
  if (!at.strict() || count <= kMaxItems) return at.Spend(count * kItemText);
  return BadField(at, "has " + std::to_string(count) + " entries; at most " +
                          std::to_string(kMaxItems) + " are taken");
}

Status CheckNumber(double number, const Field& at) {
  if (!at.strict() || (number >= 0 && number < 1e30)) return OkStatus();
  return BadField(at, "is not a valid number");
}

Result<std::chrono::milliseconds> Parse(const google::protobuf::Duration& in, const Field& at) {
  constexpr int64_t kMaxSeconds = std::chrono::seconds(kMaxDuration).count();
  const bool negative = in.seconds() < 0 || in.nanos() < 0;
  if (negative || in.nanos() >= kNanosPerSecond || in.seconds() >= kMaxSeconds) {
    if (at.strict()) {
      return BadField(at, negative ? "is negative" : "is not a duration below ten years");
    }
    return std::chrono::milliseconds(negative ? std::chrono::milliseconds(0) : kMaxDuration);
  }
  return std::chrono::milliseconds(in.seconds() * 1000 +
                                   (in.nanos() + kNanosPerMilli - 1) / kNanosPerMilli);
}

Result<WallTime> Parse(const google::protobuf::Timestamp& in, const Field& at) {
  using Duration = WallTime::duration;
  constexpr int64_t kMax =
      std::chrono::duration_cast<std::chrono::seconds>(Duration::max()).count();
  if (in.nanos() < 0 || in.nanos() >= kNanosPerSecond || in.seconds() >= kMax ||
      in.seconds() <= -kMax) {
    if (at.strict()) return BadField(at, "is not a time");
    return WallTime();
  }
  return WallTime(std::chrono::duration_cast<Duration>(std::chrono::seconds(in.seconds())) +
                  std::chrono::duration_cast<Duration>(std::chrono::nanoseconds(in.nanos())));
}

void Print(std::chrono::milliseconds duration, google::protobuf::Duration* out) {
  duration = std::max(duration, std::chrono::milliseconds(0));
  out->set_seconds(duration.count() / 1000);
  out->set_nanos(static_cast<int32_t>(duration.count() % 1000) * kNanosPerMilli);
}

void Print(WallTime time, google::protobuf::Timestamp* out) {
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
  if (at.strict() && limit.count() == 0) return BadField(at, "must be longer than 0");
  return std::optional(limit);
}

Result<std::string> ParseName(const std::string& name, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(name, at));
  return name;
}

Result<std::map<std::string, std::string>> ParseMap(const TextMap& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckCount(in.size(), at));
  std::map<std::string, std::string> value;
  for (const auto& [key, text] : in) {
    ONECOPY_RETURN_IF_ERROR(CheckText(key, at));
    ONECOPY_RETURN_IF_ERROR(CheckText(text, at / key, kMaxText));
    value.emplace(key, text);
  }
  return value;
}

void PrintMap(const std::map<std::string, std::string>& value, TextMap* out) {
  for (const auto& [key, text] : value) (*out)[ToUtf8(key)] = CutUtf8(ToUtf8(text), kMaxText);
}

}  // namespace onecopy::codec
