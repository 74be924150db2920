// What a request over HTTP is answered with where it is not for the metrics.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace onecopy::metrics {

struct Asked {
  std::string method;  // "GET"
  std::string target;  // "/metrics?x=y"
  std::string host;    // of the Host header; empty: there is none
};

struct Answer {
  unsigned status = 200;
  std::string text;  // plain text
};

// Nothing for GET /metrics. Without TLS the Host header has to name this machine by its loopback:
// a page of somebody else's, which a browser of this machine shows, could otherwise read metrics by
// a name of its own that leads here.
std::optional<Answer> AnswerWithoutMetrics(const Asked& asked, bool tls);

// Whether a Host header names loopback: "localhost", an address of 127.0.0.0/8 or [::1], with or
// without a port.
bool NamesLoopback(std::string_view host);

}  // namespace onecopy::metrics
