#include "tests/support/machine.h"

#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "tests/support/node.h"

namespace onecopy::testing {
namespace {

constexpr char kEnd[] = "=== ended ";
constexpr char kUnshare[] = "/usr/bin/unshare";

std::vector<std::string> Separately() {
  std::vector<std::string> arguments = {"--mount", "--net",        "--pid",       "--uts",
                                        "--fork",  "--kill-child", "--mount-proc"};
  // Everybody may have namespaces in a user namespace of one's own, where the system allows that.
  if (::geteuid() != 0) arguments.insert(arguments.begin(), {"--user", "--map-root-user"});
  return arguments;
}

// What the shell of a machine does first. What a daemon says in the background is kept aside, where
// _await looks whether it serves.
std::string Prologue(const std::string& name, const std::string& shared) {
  const std::string programs = std::filesystem::canonical(ProgramFolder()).string();
  return "exec 2>&1\nset +m\nhostname " + name + "\nshared=" + shared + "\n" +
         "programs=" + programs + "\n" +
         R"sh(mount -t tmpfs tmpfs /run && mkdir /run/shared && mount --bind "$shared" /run/shared
# The repository may lie in what is covered next.
mkdir /run/programs && mount --bind "$programs" /run/programs
mkdir -p /etc/onecopy 2>/dev/null
mount -t tmpfs tmpfs /etc/onecopy && mount -t tmpfs tmpfs /tmp && mount -t sysfs sysfs /sys
ip link set lo up
unset ONECOPY_RUN_DIR XDG_RUNTIME_DIR
command -v sudo >/dev/null || sudo() { "$@"; }
onecopyd() {
  case "$*" in
    config*|--version|--help) command onecopyd "$@" ;;
    *) command onecopyd "$@" >"$HOME/.onecopyd-$BASHPID" 2>&1 ;;
  esac
}
_await() {
  while jobs -r | grep -q onecopyd; do
    [ "$(jobs -r | grep -c onecopyd)" -le "$(cat "$HOME"/.onecopyd-* | grep -c '^ready ')" ] && return 0
    sleep 0.02
  done
  cat "$HOME"/.onecopyd-*
  return 1
}
)sh" + "export PATH=/run/programs:$PATH HOME=/run/shared/" +
         name + "\nmkdir -p $HOME && cd\n";
}

// Whether a line leaves an onecopyd in the background.
bool LeavesDaemon(const std::string& line) {
  const std::string words = line.substr(0, line.find(" #"));
  const size_t last = words.find_last_not_of(' ');
  return words.find("onecopyd") != std::string::npos && last != std::string::npos &&
         words[last] == '&';
}

}  // namespace

std::string Machine::WhyNot() {
  static const std::string why = [] {
    for (const char* program : {kUnshare, "/usr/bin/nsenter"}) {
      if (!std::filesystem::exists(program)) return std::string("there is no ") + program;
    }
    std::vector<std::string> arguments = Separately();
    arguments.insert(arguments.end(), {"sh", "-c", "mount -t tmpfs tmpfs /tmp && ip link"});
    return RunCommand(kUnshare, arguments).exit_status == 0
               ? std::string()
               : std::string("this user may make no namespaces, or there is no program ip");
  }();
  return why;
}

Machine::Machine(const std::string& name, const std::string& shared)
    : line_file_(shared + "/." + name + "-line"), shared_line_("/run/shared/." + name + "-line") {
  std::vector<std::string> arguments = Separately();
  arguments.insert(arguments.end(), {"/bin/bash", "--norc"});
  shell_ = std::make_unique<Process>(
      ProcessOptions{.program = kUnshare, .arguments = arguments, .input_file = {}});
  shell_->Write(Prologue(name, shared));
  const Said said = Type(":");
  if (!said.text.empty()) throw std::runtime_error("machine " + name + ": " + said.text);
}

Machine::Said Machine::Type(const std::string& line) {
  // From a file, as what is typed must not be read by what runs.
  WriteFile(line_file_, line + "\n");
  shell_->Write(". " + shared_line_ + " </dev/null\n" + (LeavesDaemon(line) ? "_await\n" : "") +
                "echo \"\n" + kEnd + "$?\"\n");
  Said said;
  while (true) {
    const std::string got = shell_->ReadLine();
    if (got.empty()) throw std::runtime_error("the shell has ended: " + said.text);
    if (got.starts_with(kEnd)) {
      said.status = std::stoi(got.substr(sizeof kEnd - 1));
      if (said.text.ends_with('\n')) said.text.pop_back();  // the one before the mark
      return said;
    }
    said.text += got;
  }
}

std::string Machine::Do(const std::string& line) {
  Said said = Type(line);
  if (said.status != 0) {
    throw std::runtime_error("\"" + line + "\" ended with " + std::to_string(said.status) + ": " +
                             said.text);
  }
  return said.text;
}

pid_t Machine::ShellPid() const {
  const std::string pid = std::to_string(shell_->pid());
  return static_cast<pid_t>(std::stoi(ReadFile("/proc/" + pid + "/task/" + pid + "/children")));
}

void Machine::Join(Machine& one, const std::string& address, Machine& other,
                   const std::string& other_address) {
  const std::string pid = std::to_string(other.ShellPid());
  const auto check = [](const CommandResult& result) {
    if (result.exit_status != 0) throw std::runtime_error("joining machines: " + result.err);
  };
  std::vector<std::string> enter = {"--target", std::to_string(one.ShellPid()), "--net"};
  if (::geteuid() != 0) enter.insert(enter.end(), {"--user", "--preserve-credentials"});
  enter.insert(enter.end(),
               {"ip", "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", pid});
  check(RunCommand("/usr/bin/nsenter", enter));
  for (const auto& [machine, given] :
       {std::pair{&one, address}, std::pair{&other, other_address}}) {
    machine->Do("ip address add " + given + " dev wire && ip link set wire up");
  }
}

}  // namespace onecopy::testing
