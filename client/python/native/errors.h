// Failures of the client library as Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <string>
#include <utility>

#include "onecopy/result.h"

namespace onecopy::python {

// Carries a failure to the translator, which raises onecopy.Error's class for its code.
class StatusError : public std::exception {
 public:
  explicit StatusError(Status status) : status_(std::move(status)), text_(status_.ToString()) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Status status_;
  std::string text_;
};

// With the GIL or without.
inline void Check(const Status& status) {
  if (!status.ok()) throw StatusError(status);
}

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) throw StatusError(result.status());
  return *std::move(result);
}

// What onecopy.core.values._errors.build makes of it. Needs the GIL.
nanobind::object ToException(const Status& status);

// Once, as the module is made.
void RegisterErrors();

}  // namespace onecopy::python
