// A value, or the error instead of it.
#pragma once

#include "onecopy/language.h"  // first

#include <cassert>
#include <type_traits>
#include <utility>
#include <variant>

#include "onecopy/status.h"

namespace onecopy {

// Asking a failed one for its value ends the process, after the failure was said on standard error.
template <typename T>
class [[nodiscard]] Result {
  static_assert(!std::is_same_v<std::remove_cvref_t<T>, Status>,
                "a Result of a Status is a Status");

 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {
    assert(!std::get<1>(state_).ok());
  }

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  T& value() & { return Get(); }
  const T& value() const& { return const_cast<Result*>(this)->Get(); }
  T&& value() && { return std::move(Get()); }

  T& operator*() & { return Get(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(Get()); }
  T* operator->() { return &Get(); }
  const T* operator->() const { return &value(); }

 private:
  T& Get() {
    if (!ok()) EndForLackOfValue(std::get<1>(state_));
    return std::get<0>(state_);
  }

  std::variant<T, Status> state_;
};

}  // namespace onecopy

#define ONECOPY_CONCAT_INNER(a, b) a##b
#define ONECOPY_CONCAT(a, b) ONECOPY_CONCAT_INNER(a, b)

// Leaves the function with the failure of `expression` (a Status), if it is one.
#define ONECOPY_RETURN_IF_ERROR(expression)                                    \
  do {                                                                         \
    if (::onecopy::Status onecopy_status = (expression); !onecopy_status.ok()) \
      return onecopy_status;                                                   \
  } while (false)

// Puts the value of `expression` (a Result) into `target`, or leaves the function with its failure.
#define ONECOPY_ASSIGN_OR_RETURN(target, expression) \
  ONECOPY_ASSIGN_OR_RETURN_INNER(ONECOPY_CONCAT(onecopy_result_, __LINE__), target, expression)
// NOLINTBEGIN(bugprone-macro-parentheses): `target` may be a declaration
#define ONECOPY_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return result.status();                        \
  target = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)
