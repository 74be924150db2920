#include "transport/tls/openssl.h"

#include <openssl/err.h>

namespace onecopy::tls {

Bio OpenText(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio, &data);
  return bytes > 0 ? std::string(data, static_cast<size_t>(bytes)) : std::string();
}

std::string Complaint() {
  char text[256] = "unknown format";
  if (const unsigned long error = ERR_get_error(); error != 0) {
    ERR_error_string_n(error, text, sizeof text);
  }
  ERR_clear_error();
  return text;
}

int NoPassword(char*, int, int, void*) { return 0; }

std::string Plain(std::string_view text) {
  std::string plain(text);
  for (char& c : plain) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return plain;
}

}  // namespace onecopy::tls
