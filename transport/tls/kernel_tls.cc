#include "transport/tls/kernel_tls.h"

#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::tls {
namespace {

// As the kernel's header has it, but without its salt of no bytes, which C++ does not know.
struct ChaChaInfo {
  tls_crypto_info info;
  unsigned char iv[TLS_CIPHER_CHACHA20_POLY1305_IV_SIZE];
  unsigned char key[TLS_CIPHER_CHACHA20_POLY1305_KEY_SIZE];
  unsigned char rec_seq[TLS_CIPHER_CHACHA20_POLY1305_REC_SEQ_SIZE];
};

// RFC 8446 names a nonce whole; the kernel wants its beginning as a salt.
template <typename Info>
Status Give(int fd, int direction, uint16_t cipher_type, const DirectionKeys& keys) {
  Info info{};
  info.info.version = TLS_1_3_VERSION;
  info.info.cipher_type = cipher_type;
  const auto iv = keys.iv.get();
  constexpr size_t kSaltBytes = kNonceBytes - sizeof info.iv;
  if constexpr (kSaltBytes > 0) std::memcpy(info.salt, iv.data(), kSaltBytes);
  std::memcpy(info.iv, iv.data() + kSaltBytes, sizeof info.iv);
  std::memcpy(info.key, keys.key.get().data(), sizeof info.key);
  const int done = ::setsockopt(fd, SOL_TLS, direction, &info, sizeof info);
  const int error = errno;
  OPENSSL_cleanse(&info, sizeof info);
  if (done == 0) return OkStatus();
  return {Code::kUnimplemented, reasons::kNotServed,
          "the kernel's TLS does not accept keys of " + CipherName(keys.cipher) + ": " +
              os::ErrnoText(error)};
}

Status GiveOne(int fd, int direction, const DirectionKeys& keys) {
  switch (keys.cipher) {
    case Cipher::kAes128Gcm:
      return Give<tls12_crypto_info_aes_gcm_128>(fd, direction, TLS_CIPHER_AES_GCM_128, keys);
    case Cipher::kAes256Gcm:
      return Give<tls12_crypto_info_aes_gcm_256>(fd, direction, TLS_CIPHER_AES_GCM_256, keys);
    case Cipher::kChaCha20Poly1305:
      return Give<ChaChaInfo>(fd, direction, TLS_CIPHER_CHACHA20_POLY1305, keys);
  }
  return OkStatus();
}

// Two ends of a connection over loopback.
Result<std::array<os::UniqueFd, 2>> Connect() {
  ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd listener, os::ListenTcp({"127.0.0.1", 0}, 1));
  ONECOPY_ASSIGN_OR_RETURN(const os::HostPort where, os::LocalAddress(listener.get()));
  os::UniqueFd one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(where.port);
  if (!one || ::connect(one.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return os::ErrnoStatus(errno, "trying the kernel's TLS");
  }
  os::UniqueFd other(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!other) return os::ErrnoStatus(errno, "trying the kernel's TLS");
  return std::array<os::UniqueFd, 2>{std::move(one), std::move(other)};
}

Status Try(Cipher cipher) {
  ONECOPY_ASSIGN_OR_RETURN(const auto ends, Connect());
  const std::array<unsigned char, 32> secret{1};
  SessionKeys keys;
  ONECOPY_ASSIGN_OR_RETURN(keys.sending, KeysOf(cipher, secret));
  keys.receiving = keys.sending;
  for (const os::UniqueFd& end : ends) ONECOPY_RETURN_IF_ERROR(UseKernelTls(end.get(), keys));
  constexpr char kWord[] = "a word";
  std::array<char, sizeof kWord> got{};
  if (::send(ends[0].get(), kWord, sizeof kWord, MSG_NOSIGNAL) != sizeof kWord ||
      ::recv(ends[1].get(), got.data(), got.size(), MSG_WAITALL) != sizeof kWord ||
      !std::equal(got.begin(), got.end(), kWord)) {
    return {Code::kUnimplemented, reasons::kNotServed,
            "the kernel's TLS does not return the bytes that it was given"};
  }
  return OkStatus();
}

}  // namespace

Status UseKernelTls(int fd, const SessionKeys& keys) {
  constexpr char kProtocol[] = "tls";
  if (::setsockopt(fd, SOL_TCP, TCP_ULP, kProtocol, sizeof kProtocol - 1) != 0) {
    return {Code::kUnimplemented, reasons::kNotServed,
            "the kernel does not support TLS sockets: " + os::ErrnoText(errno)};
  }
  ONECOPY_RETURN_IF_ERROR(GiveOne(fd, TLS_TX, keys.sending));
  ONECOPY_RETURN_IF_ERROR(GiveOne(fd, TLS_RX, keys.receiving));
#ifdef TLS_RX_EXPECT_NO_PAD
  // Nobody pads records here, so that they can be opened straight to where their bytes belong.
  // Kernels before 6.0 do not know it.
  const int on = 1;
  ::setsockopt(fd, SOL_TLS, TLS_RX_EXPECT_NO_PAD, &on, sizeof on);
#endif
  return OkStatus();
}

Status KernelHasTls(Cipher cipher) {
  static std::mutex mutex;
  static std::map<Cipher, Status> tried;
  const std::lock_guard lock(mutex);
  const auto known = tried.find(cipher);
  if (known != tried.end()) return known->second;
  return tried.emplace(cipher, Try(cipher)).first->second;
}

}  // namespace onecopy::tls
