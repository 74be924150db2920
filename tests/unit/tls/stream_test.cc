// Records: that they are TLS 1.3's, that what was sent arrives, and that nothing else does.
#include "transport/tls/stream.h"

#include <netinet/in.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <span>

#include "tests/support/memory.h"
#include "tests/unit/tls/ends.h"
#include "transport/os/sockets/host_port.h"
#include "transport/tls/kernel_tls.h"

using namespace onecopy;
using namespace onecopy::tls;
using namespace onecopy::testing;

namespace {

constexpr size_t kShared = 40;

std::string Payload(size_t bytes, uint64_t seed) {
  std::string payload(bytes, '\0');
  Fill(std::as_writable_bytes(std::span(payload)).data(), bytes, seed);
  return payload;
}

std::unique_ptr<Stream> Open(int fd, const SessionKeys& keys,
                             uint64_t records_per_key = kRecordsPerKey) {
  auto stream = Stream::Make(fd, keys, {kShared, records_per_key});
  REQUIRE_OK(stream);
  return std::move(*stream);
}

iovec Piece(std::string& text, size_t from, size_t bytes) { return {text.data() + from, bytes}; }

// Moves `sent` from one stream to the other in pieces of sizes that `random` chooses.
std::string Carry(Stream& from, Stream& to, std::string sent, uint32_t seed) {
  std::mt19937 random(seed);
  std::string received(sent.size(), '\0');
  size_t out = 0;
  size_t in = 0;
  for (int idle = 0; in < received.size(); ++idle) {
    REQUIRE(idle < 100'000);
    if (out < sent.size()) {
      std::array<iovec, 4> pieces;
      size_t at = out;
      for (iovec& piece : pieces) {
        const size_t most = std::array<size_t, 5>{0, 1, 40, 5'000, 200'000}[random() % 5];
        const size_t bytes = std::min(sent.size() - at, most);
        piece = Piece(sent, at, bytes);
        at += bytes;
      }
      const ssize_t took = from.Send(pieces.data(), pieces.size(), false);
      if (took < 0) REQUIRE(errno == EAGAIN);
      if (took > 0) out += static_cast<size_t>(took);
    } else if (from.unsent()) {
      from.Flush();
    }
    const size_t first = std::min<size_t>(received.size() - in, random() % 100'000);
    std::array<iovec, 2> room = {
        Piece(received, in, first),
        Piece(received, in + first, std::min<size_t>(received.size() - in - first, 80))};
    const ssize_t got = to.Receive(room.data(), room.size());
    if (got < 0) REQUIRE(errno == EAGAIN);
    if (got > 0) in += static_cast<size_t>(got);
  }
  return received;
}

// The next bytes of a stream; "" and errno where there are none.
std::string Take(Stream& stream) {
  std::string text(100'000, '\0');
  const iovec room{text.data(), text.size()};
  const ssize_t got = stream.Receive(&room, 1);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  if (got == 0) errno = 0;
  return text;
}

}  // namespace

TEST_CASE("bytes arrive as they were sent, in pieces of any size, with keys that change") {
  const Shaken shaken;
  const uint64_t per_key = GENERATE(values<uint64_t>({kRecordsPerKey, 5, 1}));
  const auto east = Open(shaken.ends.one.get(), shaken.KeysOf(*shaken.client), per_key);
  const auto west = Open(shaken.ends.other.get(), shaken.KeysOf(*shaken.server), per_key);
  const std::string there = Payload(3'000'000, 1);
  CHECK(Carry(*east, *west, there, 7) == there);
  const std::string back = Payload(1'234'567, 2);
  CHECK(Carry(*west, *east, back, 8) == back);
  // A change of keys may have come after the last byte.
  for (Stream* stream : {east.get(), west.get()}) {
    CHECK(Take(*stream).empty());
    CHECK_FALSE(stream->buffered());
  }
}

TEST_CASE("what travels cannot be read, and cannot be changed, left out or repeated") {
  const Shaken shaken;
  const SessionKeys keys = shaken.KeysOf(*shaken.server);
  const auto east = Open(shaken.ends.one.get(), shaken.KeysOf(*shaken.client));
  std::string secret = "a secret that is long enough to be found";
  const iovec piece{secret.data(), secret.size()};
  REQUIRE(east->Send(&piece, 1, false) == static_cast<ssize_t>(secret.size()));
  std::string wire(4096, '\0');
  wire.resize(
      static_cast<size_t>(::recv(shaken.ends.other.get(), wire.data(), wire.size(), MSG_DONTWAIT)));
  CHECK(wire.size() == secret.size() + kRecordOverhead);
  CHECK(wire.find("secret") == std::string::npos);

  const auto open = [&](const std::string& sent) {
    Ends ends;
    const auto west = Open(ends.other.get(), keys);
    REQUIRE(::send(ends.one.get(), sent.data(), sent.size(), 0) ==
            static_cast<ssize_t>(sent.size()));
    ends.one.Reset();
    std::string got = Take(*west);
    const std::string more = Take(*west);
    return got + more + "|" + std::to_string(errno);
  };
  CHECK(open(wire) == secret + "|0");
  for (size_t at = 0; at < wire.size(); ++at) {
    std::string changed = wire;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    INFO(at);
    const std::string outcome = open(changed);
    CHECK(outcome.find("secret") == std::string::npos);
  }
  CHECK(open(wire + wire) == secret + "|" + std::to_string(EPROTO));
  CHECK(open(wire.substr(0, wire.size() - 1)) == "|0");  // cut short: nothing of it is given out
}

TEST_CASE("OpenSSL understands the records, and is understood, with its own changes of keys") {
  Shaken identities;
  Ends ends;
  // West is OpenSSL alone.
  const std::unique_ptr<SSL, Freer<SSL_free>> west(SSL_new(identities.west->lane_context()));
  REQUIRE(SSL_set_fd(west.get(), ends.other.get()) == 1);
  SSL_set_accept_state(west.get());
  auto client = Handshake::Begin(*identities.east, Side::kClient, ends.one.get());
  REQUIRE_OK(client);
  for (int turn = 0; turn < 10; ++turn) {
    REQUIRE_OK((*client)->Step());
    SSL_do_handshake(west.get());
  }
  REQUIRE(SSL_is_init_finished(west.get()));
  CHECK(std::string(SSL_get_version(west.get())) == "TLSv1.3");
  const auto east = Open(ends.one.get(), identities.KeysOf(**client), 3);

  std::string sent = Payload(200'000, 3);
  std::string received;
  size_t out = 0;
  while (received.size() < sent.size()) {
    const iovec piece{sent.data() + out, sent.size() - out};
    if (out < sent.size()) {
      const ssize_t took = east->Send(&piece, 1, false);
      if (took > 0) out += static_cast<size_t>(took);
    } else {
      east->Flush();
    }
    std::string part(20'000, '\0');
    const int got = SSL_read(west.get(), part.data(), static_cast<int>(part.size()));
    if (got > 0) received += part.substr(0, static_cast<size_t>(got));
    if (got <= 0) REQUIRE(SSL_get_error(west.get(), got) == SSL_ERROR_WANT_READ);
  }
  CHECK(received == sent);

  std::string answer;
  for (int i = 0; i < 5; ++i) {
    const std::string part = Payload(10'000, 4 + static_cast<uint64_t>(i));
    REQUIRE(SSL_key_update(west.get(), SSL_KEY_UPDATE_NOT_REQUESTED) ==
            1);  // before the next write
    REQUIRE(SSL_write(west.get(), part.data(), static_cast<int>(part.size())) == 10'000);
    const std::string got = Take(*east);
    CHECK(got == part);
  }
  SSL_shutdown(west.get());
  CHECK(Take(*east).empty());
  CHECK(errno == 0);  // it said that there is no more
}

TEST_CASE("a socket that takes no more is waited for, without a byte lost") {
  const Shaken shaken;
  const auto east = Open(shaken.ends.one.get(), shaken.KeysOf(*shaken.client));
  const auto west = Open(shaken.ends.other.get(), shaken.KeysOf(*shaken.server));
  std::string sent = Payload(8'000'000, 9);
  size_t out = 0;
  while (true) {
    const iovec piece{sent.data() + out, sent.size() - out};
    const ssize_t took = east->Send(&piece, 1, false);
    if (took < 0) break;
    out += static_cast<size_t>(took);
  }
  CHECK(errno == EAGAIN);
  CHECK(east->unsent());
  REQUIRE(out < sent.size());
  // What was taken needs its memory no more.
  std::fill_n(sent.begin(), out, 'x');
  std::string received;
  while (received.size() < out) {
    received += Take(*west);
    east->Flush();
  }
  CHECK(received == Payload(8'000'000, 9).substr(0, out));
}

TEST_CASE("the kernel's records and this process's are the same") {
  if (const Status why = KernelHasTls(Cipher::kAes128Gcm); !why.ok()) {
    ONECOPY_SKIP(why.ToString());
  }
  // Over TCP: the kernel knows TLS of no other sockets.
  Shaken identities;
  const auto listener = os::ListenTcp({"127.0.0.1", 0}, 1);
  REQUIRE_OK(listener);
  const auto where = os::LocalAddress(listener->get());
  REQUIRE_OK(where);
  auto one = os::ConnectTcp(*where);
  REQUIRE_OK(one);
  pollfd ready{listener->get(), POLLIN, 0};
  REQUIRE(::poll(&ready, 1, 10'000) == 1);
  const os::UniqueFd other(
      ::accept4(listener->get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  REQUIRE(other);
  auto client = Handshake::Begin(*identities.east, Side::kClient, one->get());
  auto server = Handshake::Begin(*identities.west, Side::kServer, other.get());
  REQUIRE_OK(client);
  REQUIRE_OK(server);
  for (bool done = false; !done;) {
    const auto next = (*client)->Step();
    REQUIRE_OK(next);
    const auto answer = (*server)->Step();
    REQUIRE_OK(answer);
    done = *next == Handshake::Next::kDone && *answer == Handshake::Next::kDone;
  }
  const auto east = Open(one->get(), identities.KeysOf(**client));
  REQUIRE_OK(UseKernelTls(other.get(), identities.KeysOf(**server)));
  std::string sent = Payload(100'000, 5);
  const iovec piece{sent.data(), sent.size()};
  REQUIRE(east->Send(&piece, 1, false) == 100'000);
  std::string received(sent.size(), '\0');
  size_t in = 0;
  while (in < received.size()) {
    pollfd more{other.get(), POLLIN, 0};
    REQUIRE(::poll(&more, 1, 10'000) == 1);
    const ssize_t got = ::recv(other.get(), received.data() + in, received.size() - in, 0);
    REQUIRE(got > 0);
    in += static_cast<size_t>(got);
  }
  CHECK(received == sent);
  REQUIRE(::send(other.get(), sent.data(), sent.size(), 0) == 100'000);
  std::string back;
  while (back.size() < sent.size()) {
    pollfd more{one->get(), POLLIN, 0};
    if (!east->buffered()) REQUIRE(::poll(&more, 1, 10'000) == 1);
    back += Take(*east);
  }
  CHECK(back == sent);
}
