// Records that the kernel makes and opens (kTLS): sendmsg and recvmsg of a socket then take and
// give what is not encrypted.
#pragma once

#include "onecopy/status.h"
#include "transport/tls/handshake.h"

namespace onecopy::tls {

// Hands the keys to the kernel, for both directions of a connected socket. Nothing may have been
// read or written after the handshake. UNIMPLEMENTED (NOT_SERVED) where the kernel lacks it; the
// socket is then as it was, unless it took one direction alone, after which it is of no use.
Status UseKernelTls(int fd, const SessionKeys& keys);

// Whether this kernel does so for that cipher: tried once, with a connection of its own over
// loopback; the reason why not otherwise.
Status KernelHasTls(Cipher cipher);

}  // namespace onecopy::tls
