// What a request over HTTP is answered with, and which ones the engine is asked for.
#pragma once

#include <string>
#include <string_view>

namespace onecopy::metrics {

struct Asked {
  std::string method;  // "GET"
  std::string target;  // "/metrics?x=y"
  std::string host;    // of the Host header; empty: there is none
};

inline constexpr const char* kPlainText = "text/plain; charset=utf-8";

struct Answer {
  unsigned status = 200;
  std::string text;
  std::string type = kPlainText;
  std::string policy = {};  // Content-Security-Policy; empty: none is needed
};

// What is wanted: the metrics (/metrics), what the status page shows (/status.json), or, as
// `answer` has it, what needs no figures: the page itself (/ and /status), or a refusal.
struct Wanted {
  enum class What { kMetrics, kStatus, kAnswer };
  What what = What::kAnswer;
  Answer answer = {};
};

// Without TLS the Host header has to name this machine by its loopback: a page of somebody else's,
// which a browser of this machine shows, could otherwise read all of this by a name of its own that
// leads here.
Wanted WantedBy(const Asked& asked, bool tls);

// Whether a Host header names loopback: "localhost", an address of 127.0.0.0/8 or [::1], with or
// without a port.
bool NamesLoopback(std::string_view host);

}  // namespace onecopy::metrics
