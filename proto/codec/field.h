// Checks of single fields of messages. Strictly read, no sender is trusted to fill them in well:
// not a client, not a peer, not a foreign program. Leniently, everything is taken as well as it can
// be: a library must understand a daemon that is newer than it.
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

#include "onecopy/reasons.h"
#include "onecopy/result.h"
#include "onecopy/transfer.h"

namespace onecopy::codec {

// The most bytes of text in a field of its kind.
inline constexpr size_t kMaxName = 256;
inline constexpr size_t kMaxRequestId = 64;
inline constexpr size_t kMaxGlob = 64;
inline constexpr size_t kMaxPageToken = 1024;
inline constexpr size_t kMaxText = 4096;         // what is meant for people
inline constexpr size_t kMaxOpaque = 64 * 1024;  // what only a link understands
// The most entries of a list or map.
inline constexpr size_t kMaxItems = 4096;
// Longer durations are mistakes.
inline constexpr std::chrono::hours kMaxDuration{24 * 366 * 10};
// The most of all texts of one message together, each entry of a list included with kItemText; and
// of what it says of one transfer, which is kept for long.
inline constexpr size_t kMaxMessageText = size_t{4} << 20;
inline constexpr size_t kMaxTransferText = size_t{256} << 10;
inline constexpr size_t kItemText = 64;

// Strict: what is wrong, or not known here, is refused. Lenient: a state that is not known becomes
// kUnknown, a number that makes no sense is taken as it is, and nothing is refused.
enum class Strictness { kStrict, kLenient };

// Where in a message a field is, as in "transfer.plan.steps[2].node", how strictly it is read, and
// how much text may still come. Made on the way down and written out only where something is wrong;
// valid while the one that it was made from is.
class Field {
 public:
  explicit Field(Strictness strictness = Strictness::kStrict)
      : strictness_(strictness), most_text_(kMaxMessageText) {}
  Field operator/(std::string_view name) const { return Field(this, name, -1, 0); }
  Field operator[](int index) const { return Field(this, {}, index, 0); }
  // The same field, in all of which there may be so much text.
  Field Within(size_t most_text) const { return Field(this, {}, -1, most_text); }
  bool strict() const { return strictness_ == Strictness::kStrict; }
  std::string ToString() const;

  // So much text was read here. Strictly, INVALID_ARGUMENT where that is more than may come.
  Status Spend(size_t text) const;

 private:
  Field(const Field* parent, std::string_view name, int index, size_t most_text)
      : parent_(parent),
        name_(name),
        index_(index),
        strictness_(parent->strictness_),
        most_text_(most_text) {}

  const Field* parent_ = nullptr;
  std::string_view name_;
  int index_ = -1;
  Strictness strictness_;
  size_t most_text_ = 0;  // 0: as its parent says
  mutable size_t spent_ = 0;
};

// INVALID_ARGUMENT: "source.node: …".
Status BadField(const Field& at, const std::string& why,
                std::string_view reason = reasons::kBadArgument);

// The checks are for what is read strictly; the rest is OK.
Status CheckText(const std::string& text, const Field& at, size_t max_bytes = kMaxName);
Status CheckCount(size_t count, const Field& at);
// A number of seconds or bytes per second that can be reckoned with.
Status CheckNumber(double number, const Field& at);

// Fractions of a millisecond are rounded up, so that what is longer than nothing stays so.
Result<std::chrono::milliseconds> Parse(const google::protobuf::Duration& in, const Field& at);
// Leniently, what is not a time is the zero time.
Result<WallTime> Parse(const google::protobuf::Timestamp& in, const Field& at);
// What is negative is printed as nothing.
void Print(std::chrono::milliseconds duration, google::protobuf::Duration* out);
void Print(WallTime time, google::protobuf::Timestamp* out);

// A limit on time, which must be longer than 0 where it is there at all.
Result<std::optional<std::chrono::milliseconds>> ParseLimit(bool present,
                                                            const google::protobuf::Duration& in,
                                                            const Field& at);

// The name of a node, a buffer or whatever else a request names.
Result<std::string> ParseName(const std::string& name, const Field& at);

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

}  // namespace onecopy::codec
