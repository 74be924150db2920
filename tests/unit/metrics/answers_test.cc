// What is answered without asking for metrics.
#include "daemon/metrics/answers.h"

#include "tests/support/catch.h"

using onecopy::metrics::NamesLoopback;
using onecopy::metrics::Wanted;
using onecopy::metrics::WantedBy;

namespace {

// The status of an answer without figures; 0: figures are wanted.
unsigned StatusOf(const onecopy::metrics::Asked& asked, bool tls) {
  const Wanted wanted = WantedBy(asked, tls);
  return wanted.what == Wanted::What::kAnswer ? wanted.answer.status : 0;
}

}  // namespace

TEST_CASE("a Host header names loopback, or a page of somebody else's asks") {
  for (const char* host : {"localhost", "LocalHost:9464", "127.0.0.1", "127.0.0.1:9464",
                           "127.9.8.7:1", "[::1]", "[::1]:9464"}) {
    CAPTURE(host);
    CHECK(NamesLoopback(host));
    for (const char* target : {"/metrics", "/status.json"}) {
      CHECK(StatusOf({"GET", target, host}, false) == 0);
    }
  }
  for (const char* host :
       {"", "evil.example", "evil.example:9464", "localhost.evil.example", "127.0.0.1.evil.example",
        "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:9464:1", "128.0.0.1", "0.0.0.0", "10.0.0.1",
        "::1", "[::1", "[::2]", "[::1]x", "127.1", "localhost\n", "localhost:999999"}) {
    CAPTURE(host);
    CHECK_FALSE(NamesLoopback(host));
    for (const char* target : {"/metrics", "/status.json", "/status", "/"}) {
      CHECK(StatusOf({"GET", target, host}, false) == 421);
    }
    // By TLS the name is the certificate's business.
    CHECK(StatusOf({"GET", "/metrics", host}, true) == 0);
  }
}

TEST_CASE("there are three pages, and nothing is written") {
  const std::string host = "localhost";
  for (const char* target : {"/", "/status", "/status?a"}) {
    CHECK(StatusOf({"GET", target, host}, false) == 200);
  }
  CHECK(WantedBy({"GET", "/metrics?name=a", host}, false).what == Wanted::What::kMetrics);
  CHECK(WantedBy({"GET", "/status.json?1", host}, false).what == Wanted::What::kStatus);
  for (const char* target : {"/etc/passwd", "/metrics/", "/metrics/../x", "metrics", "", "*",
                             "/status/", "/page.js", "/favicon.ico"}) {
    CAPTURE(target);
    CHECK(StatusOf({"GET", target, host}, false) == 404);
  }
  for (const char* method : {"POST", "HEAD", "get", ""}) {
    for (const char* target : {"/metrics", "/status.json", "/"}) {
      CAPTURE(method);
      CHECK(StatusOf({method, target, host}, false) == 405);
    }
  }
}
