// What Python passes for a transfer.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "onecopy/transfer.h"

namespace onecopy::python {

// (node, buffer or, with a node, the absolute path of a file there, offset or None, bytes or None)
Endpoint ToEndpoint(const nanobind::tuple& end);

// (source, destination, ranges, path, at_most or None, link, allow_emulated, checksum, deadline in
// milliseconds or None, request id, more sources, more destinations, sync, message, rate limit in
// bytes per second, priority, traceparent); ranges: Ranges, or a list of pairs of (offset, bytes,
// stride, count), or with the number of the buffer behind that; more sources and destinations:
// lists of ends.
TransferRequest ToRequest(const nanobind::tuple& request);

}  // namespace onecopy::python
