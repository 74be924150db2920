// The program itself: its standard streams and its signals.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "client/cli/output/document.h"
#include "tests/unit/client/file_copy_fixture.h"
#include "tests/unit/client/streams.h"

using onecopy::TransferState;
using onecopy::cli::Json;
using onecopy::testing::FileCopyFixture;
using onecopy::testing::MakePipe;
using onecopy::testing::MakeTerminal;
using onecopy::testing::Pattern;

namespace os = onecopy::os;

namespace {

std::string ReadAll(int fd) {
  std::string text;
  char piece[4096];
  for (ssize_t count = 0; (count = ::read(fd, piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<size_t>(count));
  }
  return text;
}

enum class Streams { kPipes, kTerminal, kClosed };

// `onecopy` with pipes for its standard streams, or a terminal for output and errors.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments, Streams streams = Streams::kPipes) {
    auto [in_read, in_write] = MakePipe();
    auto [out_read, out_write] = streams == Streams::kTerminal ? MakeTerminal() : MakePipe();
    auto [err_read, err_write] = streams == Streams::kTerminal ? MakeTerminal() : MakePipe();
    std::string program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../../onecopy";
    std::vector<char*> argv = {program.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::string terminal = "TERM=xterm";
    std::vector<char*> environment = {terminal.data()};
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (std::string_view(*variable).rfind("TERM=", 0) != 0) environment.push_back(*variable);
    }
    environment.push_back(nullptr);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::dup2(in_read.get(), 0);
      ::dup2(out_write.get(), 1);
      ::dup2(err_write.get(), 2);
      for (int fd = 0; fd < 3 && streams == Streams::kClosed; ++fd) ::close(fd);
      ::execve(program.c_str(), argv.data(), environment.data());
      ::_exit(127);
    }
    in = std::move(in_write);
    out = std::move(out_read);
    err = std::move(err_read);
  }
  ~Process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void Signal(int signal) const { ::kill(pid_, signal); }
  // Waits for the end: the exit status, or 1000 and the signal that ended it.
  int Wait() {
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, 0) == pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  os::UniqueFd in;
  os::UniqueFd out;
  os::UniqueFd err;

 private:
  pid_t pid_ = 0;
};

struct ProcessFixture : FileCopyFixture {
  ProcessFixture() {
    daemon.AddBuffer("east", "a", 300'000);
    daemon.AddBuffer("west", "b", 300'000);
  }

  Process Start(std::vector<std::string> arguments, Streams streams = Streams::kPipes) {
    arguments.insert(arguments.begin(), {"--run-dir", dir.path()});
    return Process(std::move(arguments), streams);
  }
  // Starts a transfer that is not waited for, and returns its id.
  std::string Detach() {
    Process process = Start({"cp", "a", "west:b", "--detach", "--quiet"});
    const std::string id = ReadAll(process.out.get());
    REQUIRE(process.Wait() == 0);
    return id.substr(0, id.find('\n'));
  }
  TransferState state() { return daemon.transfers().at(0).state; }
};

}  // namespace

TEST_CASE("standard input goes into a buffer, and the receipt to standard output") {
  ProcessFixture f;
  const std::string content = Pattern(200'000);
  Process process = f.Start({"cp", "-", "west:b", "--json"});
  for (size_t at = 0; at < content.size();) {
    const ssize_t count = ::write(process.in.get(), content.data() + at, content.size() - at);
    REQUIRE(count > 0);
    at += static_cast<size_t>(count);
  }
  process.in.Reset();
  const Json receipt = Json::parse(ReadAll(process.out.get()));
  CHECK(process.Wait() == 0);
  CHECK(receipt["source"] == "-");
  CHECK(receipt["bytes"] == content.size());
  CHECK(f.daemon.Bytes("west", "b").substr(0, content.size()) == content);
}

TEST_CASE("a buffer goes to standard output, and nothing else does") {
  ProcessFixture f;
  f.daemon.SetBytes("west", "b", Pattern(300'000));
  Process process = f.Start({"cp", "west:b", "-", "--json"});
  CHECK(ReadAll(process.out.get()) == Pattern(300'000));
  CHECK(Json::parse(ReadAll(process.err.get()))["destination"] == "-");
  CHECK(process.Wait() == 0);
  Process failing = f.Start({"cp", "west:missing", "-", "--json"});
  CHECK(ReadAll(failing.out.get()).empty());
  CHECK(Json::parse(ReadAll(failing.err.get()))["error"]["reason"] == "BUFFER_NOT_FOUND");
  CHECK(failing.Wait() == 3);
}

TEST_CASE("standard streams that are closed are errors, not other files") {
  ProcessFixture f;
  Process reading = f.Start({"cp", "-", "west:b"}, Streams::kClosed);
  CHECK(reading.Wait() == 2);
  Process writing = f.Start({"cp", "west:b", "-"}, Streams::kClosed);
  CHECK(writing.Wait() == 2);
}

TEST_CASE("no progress bar is drawn where standard error is no terminal") {
  ProcessFixture f;
  Process process = f.Start({"cp", "a", "west:b"});
  CHECK(ReadAll(process.err.get()).empty());
  CHECK(process.Wait() == 0);
}

TEST_CASE("a terminal shows a progress bar, which is gone in the end") {
  ProcessFixture f;
  f.daemon.Hold();
  Process process = f.Start({"cp", "a", "west:b"}, Streams::kTerminal);
  char first = 0;
  REQUIRE(::read(process.err.get(), &first, 1) == 1);  // it is being drawn
  f.daemon.Release();
  CHECK(process.Wait() == 0);
  const std::string drawn = first + ReadAll(process.err.get());
  CHECK(drawn.find("  0%  0 B of 292.97 KiB") != std::string::npos);
  CHECK(drawn.ends_with("\r\x1b[K"));
  CHECK(drawn.find('\n') == std::string::npos);
  CHECK(ReadAll(process.out.get()).find("tcp-direct") != std::string::npos);
}

TEST_CASE("a terminal shows no bar where it was not asked for") {
  ProcessFixture f;
  const std::string option = GENERATE("--quiet", "--json");
  Process process = f.Start({"cp", "a", "west:b", option}, Streams::kTerminal);
  CHECK(process.Wait() == 0);
  CHECK(ReadAll(process.err.get()).empty());
}

TEST_CASE("bytes are not thrown at a terminal") {
  ProcessFixture f;
  Process process = f.Start({"cp", "west:b", "-"}, Streams::kTerminal);
  CHECK(process.Wait() == 2);
  CHECK(f.daemon.transfers().empty());
}

TEST_CASE("top redraws a terminal until Ctrl-C, which is its ordinary end") {
  ProcessFixture f;
  f.daemon.Hold();
  const std::string id = f.Detach();
  f.daemon.AwaitRunning(1);
  Process process = f.Start({"top"}, Streams::kTerminal);
  std::string shown;
  size_t frames = 0;
  char piece[4096];
  while (frames < 2) {  // two frames: the first, and one of a refresh
    const ssize_t count = ::read(process.out.get(), piece, sizeof piece);
    REQUIRE(count > 0);
    shown.append(piece, static_cast<size_t>(count));
    frames = 0;
    for (size_t at = 0; (at = shown.find("\x1b[H\x1b[2J", at)) != std::string::npos; ++at) ++frames;
  }
  INFO(shown);
  process.Signal(SIGINT);
  CHECK(process.Wait() == 0);
  CHECK(shown.find("east: 1 running, 0 ended") != std::string::npos);
  CHECK(shown.find(id + "  RUNNING") != std::string::npos);
  f.daemon.Release();
}

TEST_CASE("Ctrl-C cancels the transfer, waits for its end, and exits 130") {
  ProcessFixture f;
  f.daemon.Hold();
  const int signal = GENERATE(SIGINT, SIGTERM);
  Process process = f.Start({"cp", "a", "west:b"});
  f.daemon.AwaitHeld(1);
  process.Signal(signal);
  CHECK(process.Wait() == 130);
  CHECK(f.state() == TransferState::kCancelled);
  CHECK(ReadAll(process.err.get()).find("[CANCELLED]") != std::string::npos);
}

TEST_CASE("Ctrl-C during a file copy leaves no file") {
  ProcessFixture f;
  f.daemon.Hold();
  std::filesystem::create_directory(f.dir / "out");
  Process process = f.Start({"cp", "west:b", f.dir / "out/file"});
  f.daemon.AwaitHeld(1);
  process.Signal(SIGINT);
  CHECK(process.Wait() == 130);
  CHECK(std::filesystem::is_empty(f.dir / "out"));
}

TEST_CASE("Ctrl-C ends the wait for standard input") {
  ProcessFixture f;
  Process process = f.Start({"cp", "-", "west:b"});
  f.daemon.AwaitBuffers(3);  // its two windows are there, beside "a"
  process.Signal(SIGINT);
  CHECK(process.Wait() == 130);
}

TEST_CASE("a second Ctrl-C leaves at once, although nothing has let go") {
  ProcessFixture f;
  f.daemon.Hold();
  f.daemon.cluster().HangCalls("Cancel");
  Process process = f.Start({"cp", "a", "west:b"});
  f.daemon.AwaitRunning(1);
  process.Signal(SIGINT);
  f.daemon.AwaitCancelRequested();
  process.Signal(SIGINT);
  CHECK(process.Wait() == 130);
  CHECK(f.state() == TransferState::kRunning);
  f.daemon.Release();
}

TEST_CASE("Ctrl-C while watching leaves the transfer alone") {
  ProcessFixture f;
  f.daemon.Hold();
  const std::string id = f.Detach();
  f.daemon.AwaitRunning(1);
  Process process = f.Start({"transfer", "watch", id}, Streams::kTerminal);
  char first = 0;
  REQUIRE(::read(process.err.get(), &first, 1) == 1);  // it shows what it was told
  process.Signal(SIGINT);
  CHECK(process.Wait() == 130);
  CHECK(f.state() == TransferState::kRunning);
  f.daemon.Release();
}

TEST_CASE("a reader that goes away ends the program, as it ends any filter") {
  ProcessFixture f;
  Process process = f.Start({"cp", "west:b", "-"});
  process.out.Reset();
  const int end = process.Wait();
  CHECK((end == 1000 + SIGPIPE || end == 5));
}

TEST_CASE(
    "when the client is killed its memory goes, and what it ordered between buffers goes on") {
  ProcessFixture f;
  f.daemon.Hold();
  {
    Process process = f.Start({"cp", "a", "west:b"});
    f.daemon.AwaitRunning(1);
    process.Signal(SIGKILL);
    CHECK(process.Wait() == 1000 + SIGKILL);
  }
  CHECK(f.state() == TransferState::kRunning);
  f.daemon.Release();
}
