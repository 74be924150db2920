#include "transport/tls/handshake.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cerrno>
#include <string_view>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/tls/lane_context.h"

namespace onecopy::tls {
namespace {

using Ssl = std::unique_ptr<SSL, Freer<SSL_free>>;
using Secret = SecretBytes<48>;

// With its length before it.
constexpr std::string_view kLaneProtocol = "\x0eonecopy-lane/1";
constexpr std::string_view kGrpcProtocol = "\x02h2";

std::string_view NameOf(Handshake::Protocol protocol) {
  return protocol == Handshake::Protocol::kLane ? kLaneProtocol : kGrpcProtocol;
}

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// False unless it is a hexadecimal number of a secret's length.
bool ReadHex(std::string_view text, Secret& secret) {
  constexpr size_t kMaxBytes = 48;
  if (text.size() % 2 != 0 || text.size() / 2 > kMaxBytes) return false;
  const auto bytes = secret.Resize(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = HexDigit(text[2 * i]);
    const int low = HexDigit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return true;
}

Result<Cipher> CipherOf(const SSL* ssl) {
  const SSL_CIPHER* cipher = SSL_get_current_cipher(ssl);
  switch (cipher == nullptr ? 0 : SSL_CIPHER_get_protocol_id(cipher)) {
    case 0x1301:
      return Cipher::kAes128Gcm;
    case 0x1302:
      return Cipher::kAes256Gcm;
    case 0x1303:
      return Cipher::kChaCha20Poly1305;
    default:
      return Status(Code::kInternal, reasons::kInternal, "a TLS lane has an unknown cipher");
  }
}

Status Failed(const SSL* ssl, int error) {
  const int saved = errno;
  const unsigned long why = ERR_peek_error();
  const long verified = SSL_get_verify_result(ssl);
  const std::string text = Complaint();
  if (verified != X509_V_OK) {
    return {Code::kUnauthenticated, reasons::kCertRejected,
            "the certificate at the other end of a TLS lane is not accepted here: " +
                std::string(X509_verify_cert_error_string(verified)),
            "check [tls] on both nodes"};
  }
  if (error == SSL_ERROR_SYSCALL && why == 0) {
    return {Code::kUnavailable, reasons::kLinkDown,
            "a TLS lane ended in its handshake" +
                (saved == 0 ? std::string() : ": " + os::ErrnoText(saved))};
  }
  // An alert of the other end that is about this one's certificate.
  const bool theirs = ERR_GET_LIB(why) == ERR_LIB_SSL &&
                      ERR_GET_REASON(why) >= SSL_R_SSLV3_ALERT_NO_CERTIFICATE &&
                      ERR_GET_REASON(why) <= SSL_R_TLSV1_ALERT_UNKNOWN_CA;
  if (theirs) {
    return {Code::kUnauthenticated, reasons::kCertRejected,
            "the other end of a TLS lane does not accept this node's certificate: " + text,
            "check [tls] on both nodes"};
  }
  return {Code::kUnavailable, reasons::kLinkDown, "the handshake of a TLS lane failed: " + text};
}

int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_bytes,
                   const unsigned char* in, unsigned in_bytes, void*) {
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_bytes, Bytes(kLaneProtocol), kLaneProtocol.size(), in,
                            in_bytes) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

struct Handshake::State {
  Ssl ssl;
  Side side = Side::kClient;
  Protocol protocol = Protocol::kLane;
  Secret client;
  Secret server;
};

// What OpenSSL writes for debuggers is where it hands out the keys of a direction, as one line of
// text: "SERVER_TRAFFIC_SECRET_0 RANDOM SECRET".
void TakeSecret(const SSL* ssl, const char* line) {
  auto* state = static_cast<Handshake::State*>(SSL_get_app_data(ssl));
  if (state == nullptr) return;
  const std::string_view text(line);
  const size_t last = text.rfind(' ');
  if (last == std::string_view::npos) return;
  if (text.starts_with("CLIENT_TRAFFIC_SECRET_0 ")) ReadHex(text.substr(last + 1), state->client);
  if (text.starts_with("SERVER_TRAFFIC_SECRET_0 ")) ReadHex(text.substr(last + 1), state->server);
}

Result<std::shared_ptr<SSL_CTX>> MakeLaneContext(const Chain& own, EVP_PKEY* key,
                                                 X509_STORE* authorities) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX* const raw = context.get();
  bool right = raw != nullptr && SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_ciphersuites(raw,
                                        "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                        "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
               SSL_CTX_use_certificate(raw, own.front().x509()) == 1 &&
               SSL_CTX_use_PrivateKey(raw, key) == 1 &&
               SSL_CTX_set1_verify_cert_store(raw, authorities) == 1 &&
               SSL_CTX_set_num_tickets(raw, 0) == 1;
  for (size_t i = 1; right && i < own.size(); ++i) {
    right = SSL_CTX_add1_chain_cert(raw, own[i].x509()) == 1;
  }
  if (!right) {
    return Status(Code::kInternal, reasons::kInternal, "preparing TLS lanes: " + Complaint());
  }
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_alpn_select_cb(raw, SelectProtocol, nullptr);
  SSL_CTX_set_keylog_callback(raw, TakeSecret);
  return context;
}

Handshake::Handshake(std::unique_ptr<State> state) : state_(std::move(state)) {}
Handshake::~Handshake() = default;

Result<std::unique_ptr<Handshake>> Handshake::Begin(const Identity& identity, Side side, int fd,
                                                    Protocol protocol) {
  auto state = std::make_unique<State>();
  state->side = side;
  state->protocol = protocol;
  const std::string_view name = NameOf(protocol);
  state->ssl.reset(SSL_new(identity.lane_context()));
  SSL* const ssl = state->ssl.get();
  if (ssl == nullptr || SSL_set_fd(ssl, fd) != 1 || SSL_set_app_data(ssl, state.get()) != 1 ||
      SSL_set_alpn_protos(ssl, Bytes(name), name.size()) != 0) {
    return Status(Code::kInternal, reasons::kInternal, "beginning a TLS lane: " + Complaint());
  }
  if (side == Side::kClient) {
    SSL_set_connect_state(ssl);
  } else {
    SSL_set_accept_state(ssl);
  }
  return std::unique_ptr<Handshake>(new Handshake(std::move(state)));
}

Result<Handshake::Next> Handshake::Step() {
  SSL* const ssl = state_->ssl.get();
  ERR_clear_error();
  errno = 0;
  const int done = SSL_do_handshake(ssl);
  if (done != 1) {
    const int error = SSL_get_error(ssl, done);
    if (error == SSL_ERROR_WANT_READ) return Next::kRead;
    if (error == SSL_ERROR_WANT_WRITE) return Next::kWrite;
    return Failed(ssl, error);
  }
  const unsigned char* protocol = nullptr;
  unsigned bytes = 0;
  SSL_get0_alpn_selected(ssl, &protocol, &bytes);
  if (std::string_view(reinterpret_cast<const char*>(protocol), bytes) !=
      NameOf(state_->protocol).substr(1)) {
    return Status(Code::kUnavailable, reasons::kLinkDown,
                  "the other end does not speak the TLS of a lane");
  }
  return Next::kDone;
}

Result<Handshake::Next> Handshake::AwaitFirstByte() {
  SSL* const ssl = state_->ssl.get();
  ERR_clear_error();
  errno = 0;
  char byte = 0;
  const int got = SSL_peek(ssl, &byte, 1);
  if (got == 1) return Next::kDone;
  const int error = SSL_get_error(ssl, got);
  if (error == SSL_ERROR_WANT_READ) return Next::kRead;
  if (error == SSL_ERROR_WANT_WRITE) return Next::kWrite;
  return Failed(ssl, error);
}

Chain Handshake::presented() const {
  Chain chain;
  const SSL* ssl = state_->ssl.get();
  if (X509* own = SSL_get1_peer_certificate(ssl); own != nullptr) chain.emplace_back(Own(own));
  // Where this end connects, the certificate itself is among them once more, which does no harm.
  const STACK_OF(X509)* others = SSL_get_peer_cert_chain(ssl);
  for (int i = 0; i < sk_X509_num(others); ++i) {
    X509* one = sk_X509_value(others, i);
    X509_up_ref(one);
    chain.emplace_back(Own(one));
  }
  return chain;
}

Result<SessionKeys> Handshake::keys() const {
  ONECOPY_ASSIGN_OR_RETURN(const Cipher cipher, CipherOf(state_->ssl.get()));
  const bool client = state_->side == Side::kClient;
  const Secret& sending = client ? state_->client : state_->server;
  const Secret& receiving = client ? state_->server : state_->client;
  if (sending.empty() || receiving.empty()) {
    return Status(Code::kInternal, reasons::kInternal, "OpenSSL provided no keys for a TLS lane");
  }
  SessionKeys keys;
  ONECOPY_ASSIGN_OR_RETURN(keys.sending, KeysOf(cipher, sending.get()));
  ONECOPY_ASSIGN_OR_RETURN(keys.receiving, KeysOf(cipher, receiving.get()));
  return keys;
}

}  // namespace onecopy::tls
