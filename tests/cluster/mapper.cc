// A user's program: maps a buffer in its own memory, and does what it is told.
//
//   mapper RUN_DIR BUFFER
//
// Prints "ready BYTES", or "refused REASON", and ends. Then, for each line of standard input:
//   get OFFSET      prints "got VALUE", of that byte
//   put OFFSET VALUE
//   check           prints "valid", or "invalid REASON"
//   await           waits for revocation_fd, and prints the same
//   close           prints "closed"
// Ends with its input.
#include <poll.h>

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "onecopy/client.h"

namespace {

void Say(const std::string& text) { std::cout << text << std::endl; }

void SayValid(const onecopy::MappedBuffer& mapped) {
  const onecopy::Status status = mapped.CheckValid();
  Say(status.ok() ? "valid" : "invalid " + status.reason());
}

void Obey(onecopy::MappedBuffer& mapped, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  size_t offset = 0;
  unsigned value = 0;
  words >> verb >> offset >> value;
  auto* const bytes = static_cast<volatile unsigned char*>(mapped.data());
  if (verb == "get") Say("got " + std::to_string(bytes[offset]));
  if (verb == "put") {
    bytes[offset] = static_cast<unsigned char>(value);
    Say("done");
  }
  if (verb == "check") SayValid(mapped);
  if (verb == "await") {
    pollfd polled{mapped.revocation_fd(), POLLIN, 0};
    while (::poll(&polled, 1, -1) < 1) {
    }
    SayValid(mapped);
  }
  if (verb == "close") Say(mapped.Close().ok() ? "closed" : "failed");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "mapper: RUN_DIR BUFFER\n");
    return 2;
  }
  auto client = onecopy::Client::Connect({.run_dir = arguments[1], .program = "mapper"});
  if (!client.ok()) {
    std::fprintf(stderr, "mapper: %s\n", client.status().ToString().c_str());
    return 1;
  }
  auto mapped = client->MapBuffer(arguments[2]);
  if (!mapped.ok()) {
    std::fprintf(stderr, "mapper: %s\n", mapped.status().ToString().c_str());
    Say("refused " + mapped.status().reason());
    return 0;
  }
  Say("ready " + std::to_string(mapped->bytes()));
  for (std::string line; std::getline(std::cin, line);) Obey(*mapped, line);
  return 0;
}
