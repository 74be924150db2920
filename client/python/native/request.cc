#include "client/python/native/request.h"

#include <nanobind/stl/optional.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "client/python/native/errors.h"
#include "client/python/native/ranges.h"
#include "client/python/native/text.h"
#include "onecopy/reasons.h"

namespace onecopy::python {

namespace nb = nanobind;

namespace {

template <typename T>
[[noreturn]] void ThrowNoNumber(const nb::handle& value, const char* what) {
  PyErr_Clear();
  throw StatusError(
      {Code::kInvalidArgument, reasons::kBadArgument,
       std::string(what) + " cannot be " + nb::repr(value).c_str(),
       "pass a whole number from 0 to " + std::to_string(std::numeric_limits<T>::max())});
}

// The number that a Python int has, or an object with __index__ (such as NumPy's). Throws
// INVALID_ARGUMENT (BAD_ARGUMENT); `what`: with its article.
template <typename T>
T ToNumber(const nb::handle& value, const char* what) {
  if (PyBool_Check(value.ptr()) || PyIndex_Check(value.ptr()) == 0) ThrowNoNumber<T>(value, what);
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) nb::raise_python_error();
  const unsigned long long found = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr ||
      found > static_cast<unsigned long long>(std::numeric_limits<T>::max())) {
    ThrowNoNumber<T>(value, what);
  }
  return static_cast<T>(found);
}

template <typename T>
std::optional<T> ToOptionalNumber(const nb::handle& value, const char* what) {
  if (value.is_none()) return std::nullopt;
  return ToNumber<T>(value, what);
}

StridedRange ToRange(const nb::tuple& fields) {
  return {ToNumber<uint64_t>(fields[0], "the offset of a range"),
          ToNumber<uint64_t>(fields[1], "the bytes of a range"),
          ToNumber<uint64_t>(fields[2], "the stride of a range"),
          ToNumber<uint64_t>(fields[3], "the count of a range")};
}

RangePair ToRangePair(const nb::tuple& pair) {
  const auto source = nb::cast<nb::tuple>(pair[0]);
  const auto destination = nb::cast<nb::tuple>(pair[1]);
  RangePair made{ToRange(source), ToRange(destination)};
  if (source.size() > 4) made.source_buffer = nb::cast<uint32_t>(source[4]);
  if (destination.size() > 4) made.destination_buffer = nb::cast<uint32_t>(destination[4]);
  return made;
}

std::vector<Endpoint> ToEndpoints(const nb::handle& list) {
  std::vector<Endpoint> made;
  for (const nb::handle end : nb::cast<nb::list>(list)) {
    made.push_back(ToEndpoint(nb::cast<nb::tuple>(end)));
  }
  return made;
}

}  // namespace

Endpoint ToEndpoint(const nb::tuple& end) {
  Endpoint made{nb::cast<std::string>(end[0]), nb::cast<std::string>(end[1]),
                ToOptionalNumber<uint64_t>(end[2], "an offset"),
                ToOptionalNumber<uint64_t>(end[3], "a number of bytes")};
  // No buffer is called so; a file of this process is named without a node.
  if (!made.node.empty() && made.buffer.starts_with('/')) {
    made.file = std::exchange(made.buffer, {});
  }
  return made;
}

TransferRequest ToRequest(const nb::tuple& request) {
  TransferRequest made;
  made.source = ToEndpoint(nb::cast<nb::tuple>(request[0]));
  made.destination = ToEndpoint(nb::cast<nb::tuple>(request[1]));
  if (nb::isinstance<Ranges>(request[2])) {
    const auto& ranges = nb::cast<const Ranges&>(request[2]);
    made.ranges = ranges.pairs;
    made.equal_ranges = ranges.equal;
  } else {
    for (const nb::handle pair : nb::cast<nb::list>(request[2])) {
      made.ranges.push_back(ToRangePair(nb::cast<nb::tuple>(pair)));
    }
  }
  made.policy.path_glob = nb::cast<std::string>(request[3]);
  made.policy.at_most_copies = ToOptionalNumber<uint32_t>(request[4], "at_most");
  made.policy.link = nb::cast<std::string>(request[5]);
  made.policy.allow_emulated = nb::cast<bool>(request[6]);
  made.checksum = nb::cast<bool>(request[7]);
  if (const auto limit = ToOptionalNumber<int64_t>(request[8], "a deadline")) {
    made.deadline = std::chrono::milliseconds(*limit);
  }
  made.request_id = nb::cast<std::string>(request[9]);
  made.more_sources = ToEndpoints(request[10]);
  made.more_destinations = ToEndpoints(request[11]);
  made.sync = nb::cast<bool>(request[12]);
  const auto message = nb::cast<nb::bytes>(request[13]);
  made.message.assign(message.c_str(), message.size());
  made.pacing.rate_limit_bytes_per_second = nb::cast<uint64_t>(request[14]);
  made.pacing.priority =
      ParsePriority(nb::cast<std::string>(request[15])).value_or(Priority::kNormal);
  made.trace = Must(TraceContext::Parse(nb::cast<std::string>(request[16])));
  return made;
}

}  // namespace onecopy::python
