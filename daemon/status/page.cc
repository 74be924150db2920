#include "daemon/status/page.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>
#include <string_view>

extern "C" {
extern const unsigned char* const onecopy_status_html;
extern const unsigned long onecopy_status_html_size;
extern const unsigned char* const onecopy_status_css;
extern const unsigned long onecopy_status_css_size;
extern const unsigned char* const onecopy_status_js;
extern const unsigned long onecopy_status_js_size;
}

namespace onecopy::status {
namespace {

std::string_view View(const unsigned char* bytes, unsigned long size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

std::string HashOf(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::array<unsigned char, 2 * SHA256_DIGEST_LENGTH> coded{};
  const int size = EVP_EncodeBlock(coded.data(), digest.data(), digest.size());
  return "'sha256-" + std::string(View(coded.data(), static_cast<unsigned long>(size))) + "'";
}

// Puts the text in the place of a mark, which is there once.
void Fill(std::string& page, std::string_view mark, std::string_view text) {
  page.replace(page.find(mark), mark.size(), text);
}

Page Make() {
  const std::string_view style = View(onecopy_status_css, onecopy_status_css_size);
  const std::string_view script = View(onecopy_status_js, onecopy_status_js_size);
  Page page;
  page.text = View(onecopy_status_html, onecopy_status_html_size);
  Fill(page.text, "@page.css@", style);
  Fill(page.text, "@page.js@", script);
  page.policy = "default-src 'none'; style-src " + HashOf(style) + "; script-src " +
                HashOf(script) +
                "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                "frame-ancestors 'none'; require-trusted-types-for 'script'";
  return page;
}

}  // namespace

const Page& StatusPage() {
  static const Page page = Make();
  return page;
}

}  // namespace onecopy::status
