// The page as a document, and the policy under which a browser shows it.
#include "daemon/status/page.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>
#include <regex>
#include <string_view>

#include "tests/support/catch.h"

using onecopy::status::Page;
using onecopy::status::StatusPage;

namespace {

std::string Between(const std::string& text, std::string_view from, std::string_view to) {
  const size_t begin = text.find(from);
  REQUIRE(begin != std::string::npos);
  REQUIRE(text.find(from, begin + 1) == std::string::npos);
  const size_t end = text.find(to, begin);
  REQUIRE(end != std::string::npos);
  return text.substr(begin + from.size(), end - begin - from.size());
}

std::string HashOf(const std::string& text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::array<unsigned char, 64> coded{};
  EVP_EncodeBlock(coded.data(), digest.data(), digest.size());
  return std::string("sha256-") + reinterpret_cast<const char*>(coded.data());
}

}  // namespace

TEST_CASE(
    "the policy allows the page's own style and script, by their hashes, and nothing inline") {
  const Page& page = StatusPage();
  CHECK(page.text.starts_with("<!doctype html>"));
  const std::string style = Between(page.text, "<style>", "</style>");
  const std::string script = Between(page.text, "<script>", "</script>");
  CHECK(style.size() > 1000);
  CHECK(script.size() > 1000);
  CHECK(page.policy.find("style-src '" + HashOf(style) + "';") != std::string::npos);
  CHECK(page.policy.find("script-src '" + HashOf(script) + "';") != std::string::npos);
  CHECK(page.policy.starts_with("default-src 'none';"));
  CHECK(page.policy.find("unsafe") == std::string::npos);
  CHECK(page.policy.find("frame-ancestors 'none'") != std::string::npos);
}

TEST_CASE("the page loads nothing from anywhere and makes no markup of texts") {
  const std::string& text = StatusPage().text;
  CHECK_FALSE(std::regex_search(text, std::regex("https?:|//[a-z]|src=|@import|url\\(")));
  CHECK_FALSE(std::regex_search(
      text,
      std::regex("innerHTML|outerHTML|insertAdjacentHTML|document\\.write|eval\\(|Function\\(")));
  CHECK_FALSE(std::regex_search(text, std::regex("<[a-z][^>]* (on[a-z]+|style)=")));
  CHECK(text.find("@page.") == std::string::npos);
}
