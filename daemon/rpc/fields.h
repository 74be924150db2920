// Checks of single fields of messages, which nobody is trusted to fill in well: not a client, not a
// peer, not a foreign program.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/map.h>
#include <google/protobuf/repeated_field.h>
#include <google/protobuf/timestamp.pb.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "daemon/engine/api/types.h"
#include "transport/core/reasons.h"
#include "transport/core/result.h"

namespace onecopy::rpc {

// The most bytes of text in a field of its kind.
inline constexpr size_t kMostName = 256;
inline constexpr size_t kMostRequestId = 64;
inline constexpr size_t kMostGlob = 64;
inline constexpr size_t kMostPageToken = 1024;
inline constexpr size_t kMostText = 4096;         // what is meant for people
inline constexpr size_t kMostOpaque = 64 * 1024;  // what only a link understands
// The most entries of a list or map.
inline constexpr size_t kMostItems = 4096;
// Longer durations are mistakes.
inline constexpr std::chrono::hours kMostDuration{24 * 366 * 10};

// Where in a message a field is, as in "transfer.plan.steps[2].node". Made on the way down and
// written out only where something is wrong; valid while the one that it was made from is.
class Field {
 public:
  Field() = default;
  Field operator/(std::string_view name) const { return Field(this, name, -1); }
  Field operator[](int index) const { return Field(this, {}, index); }
  std::string ToString() const;

 private:
  Field(const Field* parent, std::string_view name, int index)
      : parent_(parent), name_(name), index_(index) {}

  const Field* parent_ = nullptr;
  std::string_view name_;
  int index_ = -1;
};

// INVALID_ARGUMENT: "source.node: …".
Status BadField(const Field& at, const std::string& why,
                std::string_view reason = reasons::kBadArgument);

Status CheckText(const std::string& text, const Field& at, size_t most_bytes = kMostName);
Status CheckCount(size_t count, const Field& at);

// Fractions of a millisecond are rounded up, so that what is longer than nothing stays so.
Result<std::chrono::milliseconds> Parse(const google::protobuf::Duration& in, const Field& at);
Result<engine::WallTime> Parse(const google::protobuf::Timestamp& in, const Field& at);
// What is negative is printed as nothing.
void Print(std::chrono::milliseconds duration, google::protobuf::Duration* out);
void Print(engine::WallTime time, google::protobuf::Timestamp* out);

// A limit on time, which must be longer than nothing where it is there at all.
Result<std::optional<std::chrono::milliseconds>> ParseLimit(bool present,
                                                            const google::protobuf::Duration& in,
                                                            const Field& at);

using TextMap = google::protobuf::Map<std::string, std::string>;
Result<std::map<std::string, std::string>> ParseMap(const TextMap& in, const Field& at);
void PrintMap(const std::map<std::string, std::string>& value, TextMap* out);

// Every entry of a list by `parse(entry, its field)`, a Result.
template <typename Message, typename ParseOne>
auto ParseEach(const google::protobuf::RepeatedPtrField<Message>& list, const Field& at,
               ParseOne parse) {
  using Value = std::remove_cvref_t<decltype(*parse(list.Get(0), at))>;
  using Values = std::vector<Value>;
  if (Status status = CheckCount(static_cast<size_t>(list.size()), at); !status.ok()) {
    return Result<Values>(std::move(status));
  }
  Values values;
  values.reserve(static_cast<size_t>(list.size()));
  for (int i = 0; i < list.size(); ++i) {
    auto value = parse(list.Get(i), at[i]);
    if (!value.ok()) return Result<Values>(value.status());
    values.push_back(std::move(*value));
  }
  return Result<Values>(std::move(values));
}

}  // namespace onecopy::rpc
