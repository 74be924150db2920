// The metrics over HTTP, with an engine that a test plays.
#include "daemon/metrics/server.h"

#include <atomic>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/process.h"
#include "tests/support/scrape.h"

using namespace onecopy;
using namespace onecopy::metrics;
using namespace std::chrono_literals;
using onecopy::testing::Scrape;
using onecopy::testing::ScrapeOf;

namespace {

const os::HostPort kAnyPort = {"127.0.0.1", 0};

void AnswerAtOnce(UniqueFunction<void(engine::Figures)> reply) {
  engine::Figures figures;
  figures.node = "east";
  figures.status.emplace();
  reply(std::move(figures));
}

}  // namespace

TEST_CASE("a page has what the engine says and what the process knows") {
  const auto server = Server::Start({kAnyPort, nullptr, AnswerAtOnce, AnswerAtOnce});
  REQUIRE_OK(server);
  REQUIRE((*server)->address().port != 0);
  const Scrape page = ScrapeOf((*server)->address().ToString());
  CHECK(page.Sum("onecopy_engine_answered") == 1);
  CHECK(page.Sum("onecopy_build_info", {{"node", "east"}}) == 1);
  CHECK(page.Has("onecopy_log_records_dropped_total"));
}

TEST_CASE("where the engine hangs the page says so, and has the rest") {
  std::vector<UniqueFunction<void(engine::Figures)>> open;
  auto server =
      Server::Start({kAnyPort, nullptr, [&](auto reply) { open.push_back(std::move(reply)); },
                     AnswerAtOnce, 1ms});
  REQUIRE_OK(server);
  const std::string address = (*server)->address().ToString();
  for (int i = 0; i < 3; ++i) {
    const Scrape page = ScrapeOf(address);
    CHECK(page.Sum("onecopy_engine_answered") == 0);
    CHECK(page.Has("onecopy_engine_answered"));
    CHECK_FALSE(page.Has("onecopy_build_info"));
    CHECK(page.Has("onecopy_audit_records_dropped_total"));
  }
  CHECK(open.size() == 1);
  server->reset();
  AnswerAtOnce(std::move(open[0]));  // nobody is there any more
}

TEST_CASE("an address that cannot be had is refused") {
  const auto first = Server::Start({kAnyPort, nullptr, AnswerAtOnce, AnswerAtOnce});
  REQUIRE_OK(first);
  const auto second = Server::Start({(*first)->address(), nullptr, AnswerAtOnce, AnswerAtOnce});
  REQUIRE_FALSE(second.ok());
  CHECK(second.status().code() == Code::kUnavailable);
  CHECK_FALSE(Server::Start({{"192.0.2.1", 0}, nullptr, AnswerAtOnce, AnswerAtOnce}).ok());
}

TEST_CASE("localhost is an address") {
  const auto server = Server::Start({{"localhost", 0}, nullptr, AnswerAtOnce, AnswerAtOnce});
  REQUIRE_OK(server);
  CHECK(os::IsLoopback((*server)->address().host));
  CHECK(ScrapeOf((*server)->address().ToString()).Sum("onecopy_engine_answered") == 1);
}

TEST_CASE("IPv6 is served") {
  const auto server = Server::Start({{"::1", 0}, nullptr, AnswerAtOnce, AnswerAtOnce});
  REQUIRE_OK(server);
  const std::string at = (*server)->address().ToString();
  REQUIRE(at.starts_with("[::1]:"));
  CHECK(ScrapeOf(at).Sum("onecopy_engine_answered") == 1);
}

// A page of the largest size: more than a socket takes at once.
TEST_CASE("clients that never read are left behind, and others are served meanwhile") {
  std::atomic<bool> large{true};
  const auto server = Server::Start({kAnyPort, nullptr,
                                     [&](auto reply) {
                                       engine::Figures figures;
                                       for (int i = 0; large && i < 20'000; ++i) {
                                         figures.quotas.push_back({std::to_string(i), 1, 1, 1});
                                       }
                                       reply(std::move(figures));
                                     },
                                     AnswerAtOnce});
  REQUIRE_OK(server);
  const std::string at = (*server)->address().ToString();
  std::vector<os::UniqueFd> silent;
  for (int i = 0; i < 24; ++i) {
    silent.push_back(onecopy::testing::Dial(at, 1));
    onecopy::testing::Send(silent.back().get(), onecopy::testing::kGetMetrics);
  }
  CHECK(ScrapeOf(at).text().size() > 2'000'000);
  large = false;
  onecopy::testing::WaitUntil("those that did not read are given up and counted", [&] {
    return ScrapeOf(at).Sum("onecopy_scrapes_total", {{"outcome", "broken"}}) == 24;
  });
}

TEST_CASE("more connections than are served at a time wait, and then are served") {
  const auto server = Server::Start({kAnyPort, nullptr, AnswerAtOnce, AnswerAtOnce});
  REQUIRE_OK(server);
  const std::string at = (*server)->address().ToString();
  std::vector<os::UniqueFd> idle;
  for (int i = 0; i < 50; ++i) idle.push_back(onecopy::testing::Dial(at));
  CHECK(ScrapeOf(at).Sum("onecopy_engine_answered") == 1);
}

TEST_CASE("the status page is served with a policy that lets nothing else run") {
  const auto server = Server::Start({kAnyPort, nullptr, AnswerAtOnce, AnswerAtOnce});
  REQUIRE_OK(server);
  const std::string at = (*server)->address().ToString();
  const auto get = [&](const std::string& path, const std::string& host) {
    return onecopy::testing::Ask(at, "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  for (const char* path : {"/", "/status", "/?x=1"}) {
    CAPTURE(path);
    const std::string page = get(path, "localhost");
    CHECK(page.starts_with("HTTP/1.1 200 "));
    CHECK(page.find("Content-Type: text/html; charset=utf-8\r\n") != std::string::npos);
    CHECK(page.find("Content-Security-Policy: default-src 'none'; ") != std::string::npos);
    CHECK(page.find("X-Content-Type-Options: nosniff\r\n") != std::string::npos);
  }
  const std::string document = get("/status.json", "127.0.0.1:1");
  CHECK(document.find("Content-Type: application/json\r\n") != std::string::npos);
  CHECK(document.find("\"node\":\"east\"") != std::string::npos);
  CHECK(document.find("Access-Control-Allow-Origin") == std::string::npos);
  for (const char* path : {"/", "/status", "/status.json"}) {
    CHECK(get(path, "evil.example").starts_with("HTTP/1.1 421 "));
  }
}

TEST_CASE("where the engine hangs the status says so") {
  std::vector<UniqueFunction<void(engine::Figures)>> open;
  auto server = Server::Start({kAnyPort, nullptr, AnswerAtOnce,
                               [&](auto reply) { open.push_back(std::move(reply)); }, 1ms});
  REQUIRE_OK(server);
  const std::string at = (*server)->address().ToString();
  for (int i = 0; i < 2; ++i) {
    const std::string document =
        onecopy::testing::Ask(at, "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(document.find("\"engine_answered\":false") != std::string::npos);
    CHECK(document.find("ENGINE_SILENT") != std::string::npos);
  }
  CHECK(open.size() == 1);
  CHECK(ScrapeOf(at).Sum("onecopy_engine_answered") == 1);
  server->reset();
}
