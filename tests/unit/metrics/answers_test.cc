// What is answered without asking for metrics.
#include "daemon/metrics/answers.h"

#include "tests/support/catch.h"

using onecopy::metrics::AnswerWithoutMetrics;
using onecopy::metrics::NamesLoopback;

TEST_CASE("a Host header names loopback, or a page of somebody else's asks") {
  for (const char* host : {"localhost", "LocalHost:9464", "127.0.0.1", "127.0.0.1:9464",
                           "127.9.8.7:1", "[::1]", "[::1]:9464"}) {
    CAPTURE(host);
    CHECK(NamesLoopback(host));
    CHECK_FALSE(AnswerWithoutMetrics({"GET", "/metrics", host}, false));
  }
  for (const char* host :
       {"", "evil.example", "evil.example:9464", "localhost.evil.example", "127.0.0.1.evil.example",
        "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:9464:1", "128.0.0.1", "0.0.0.0", "10.0.0.1",
        "::1", "[::1", "[::2]", "[::1]x", "127.1", "localhost\n", "localhost:999999"}) {
    CAPTURE(host);
    CHECK_FALSE(NamesLoopback(host));
    REQUIRE(AnswerWithoutMetrics({"GET", "/metrics", host}, false));
    CHECK(AnswerWithoutMetrics({"GET", "/metrics", host}, false)->status == 421);
    // By TLS the name is the certificate's business.
    CHECK_FALSE(AnswerWithoutMetrics({"GET", "/metrics", host}, true));
  }
}

TEST_CASE("there are two pages, and nothing is written") {
  const std::string host = "localhost";
  CHECK(AnswerWithoutMetrics({"GET", "/", host}, false)->status == 200);
  CHECK_FALSE(AnswerWithoutMetrics({"GET", "/metrics?name=a", host}, false));
  for (const char* target : {"/etc/passwd", "/metrics/", "/metrics/../x", "metrics", "", "*"}) {
    CAPTURE(target);
    CHECK(AnswerWithoutMetrics({"GET", target, host}, false)->status == 404);
  }
  for (const char* method : {"POST", "HEAD", "get", ""}) {
    CAPTURE(method);
    CHECK(AnswerWithoutMetrics({method, "/metrics", host}, false)->status == 405);
  }
}
