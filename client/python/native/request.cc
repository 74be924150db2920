#include "client/python/native/request.h"

#include <nanobind/stl/optional.h>

#include <string>
#include <utility>
#include <vector>

#include "client/python/native/text.h"

namespace onecopy::python {

namespace nb = nanobind;

namespace {

StridedRange ToRange(const nb::tuple& fields) {
  return {nb::cast<uint64_t>(fields[0]), nb::cast<uint64_t>(fields[1]),
          nb::cast<uint64_t>(fields[2]), nb::cast<uint64_t>(fields[3])};
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
                nb::cast<std::optional<uint64_t>>(end[2]),
                nb::cast<std::optional<uint64_t>>(end[3])};
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
  for (const nb::handle pair : nb::cast<nb::list>(request[2])) {
    made.ranges.push_back(ToRangePair(nb::cast<nb::tuple>(pair)));
  }
  made.policy.path_glob = nb::cast<std::string>(request[3]);
  made.policy.at_most_copies = nb::cast<std::optional<uint32_t>>(request[4]);
  made.policy.link = nb::cast<std::string>(request[5]);
  made.policy.allow_emulated = nb::cast<bool>(request[6]);
  made.checksum = nb::cast<bool>(request[7]);
  if (const auto limit = nb::cast<std::optional<int64_t>>(request[8])) {
    made.deadline = std::chrono::milliseconds(*limit);
  }
  made.request_id = nb::cast<std::string>(request[9]);
  made.more_sources = ToEndpoints(request[10]);
  made.more_destinations = ToEndpoints(request[11]);
  made.sync = nb::cast<bool>(request[12]);
  return made;
}

}  // namespace onecopy::python
