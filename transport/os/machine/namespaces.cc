#include "transport/os/machine/namespaces.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

#include "transport/os/machine/machine.h"

namespace onecopy::os {
namespace {

// ioctls of pidfds (Linux 6.11), which older headers lack.
constexpr unsigned long kPidfdGetPidNamespace = _IO(0xFF, 5);
constexpr unsigned long kPidfdGetUserNamespace = _IO(0xFF, 9);

UniqueFd OpenNamespace(const std::string& process, const char* kind) {
  return UniqueFd(::open((process + "/ns/" + kind).c_str(), O_RDONLY | O_CLOEXEC));
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A map is shown as the reader's namespace sees it: equal texts are those of one namespace, except
// for an identical map that only a user with all rights over the outer namespace can write.
bool HasOwnUserMap(int32_t pid) {
  const std::string map = ReadAll("/proc/" + std::to_string(pid) + "/uid_map");
  return !map.empty() && map == ReadAll("/proc/self/uid_map");
}

NamespaceView LookAt(int32_t pid, const UniqueFd& pidfd, unsigned long request, const char* kind) {
  NamespaceView view;
  UniqueFd fd;
  if (pidfd) fd = UniqueFd(::ioctl(pidfd.get(), request, 0));
  if (!fd && pid > 0) fd = OpenNamespace("/proc/" + std::to_string(pid), kind);
  if (const std::optional<NamespaceIdentity> identity = IdentityOf(fd.get())) {
    view.own = identity == IdentityOf(OpenNamespace("/proc/self", kind).get());
    view.number = identity->number;
    view.held = std::make_shared<UniqueFd>(std::move(fd));
  }
  return view;
}

// Names in a folder that may go meanwhile, until `use` says false.
void ForEachEntry(const std::string& folder, const std::function<bool(const std::string&)>& use) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  const std::filesystem::directory_iterator end;
  while (!error && entry != end && use(entry->path().filename())) entry.increment(error);
}

// The kernel gives the number of a group's folder to no other until the machine starts again.
bool FindGroup(const std::string& root, const std::string& path, const std::string& prefix,
               ProcessNamespaces* found) {
  struct stat facts {};
  if (::stat((root + path).c_str(), &facts) != 0) return false;
  found->cgroup = path;
  found->cgroup_id = prefix + std::to_string(facts.st_ino);
  return true;
}

// Lines of a cgroup file are "0::/path" (version 2) and "4:memory:/path", the newest way last.
void LookAtCgroup(int32_t pid, ProcessNamespaces* found) {
  std::istringstream lines(ReadAll("/proc/" + std::to_string(pid) + "/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    // One outside what this process sees begins with "/..", and is another thing at that path.
    if (path.size() < 2 || path.starts_with("/..")) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty()) {
      if (FindGroup("/sys/fs/cgroup", path, "", found)) return;
      if (FindGroup("/sys/fs/cgroup/unified", path, "", found)) return;
    } else if (controllers == "memory" || controllers == "pids") {
      FindGroup("/sys/fs/cgroup/" + controllers, path, controllers + "-", found);
    }
  }
}

}  // namespace

std::optional<NamespaceIdentity> IdentityOf(int fd) {
  struct stat facts {};
  if (fd < 0 || ::fstat(fd, &facts) != 0) return std::nullopt;
  return NamespaceIdentity{facts.st_dev, facts.st_ino};
}

ProcessNamespaces LookAtNamespaces(int32_t pid, const UniqueFd& pidfd) {
  ProcessNamespaces found;
  found.user = LookAt(pid, pidfd, kPidfdGetUserNamespace, "user");
  found.pid = LookAt(pid, pidfd, kPidfdGetPidNamespace, "pid");
  if (pid <= 0) return found;
  if (!found.user.number) found.user.own = HasOwnUserMap(pid);
  if (!found.pid.number) found.pid.own = SharesPidNamespace(pid);
  LookAtCgroup(pid, &found);
  return found;
}

std::string PresenterText(uint32_t uid, const ProcessNamespaces& seen) {
  std::string text = "uid " + std::to_string(uid);
  if (seen.user.own && seen.pid.own) return text;
  const auto add = [&text](const char* kind, const NamespaceView& view) {
    text += kind + (view.own ? "own" : view.number ? std::to_string(*view.number) : "hidden");
  };
  add(" user ", seen.user);
  add(" pid ", seen.pid);
  return text + " cgroup " + seen.cgroup_id;
}

namespace {

// Whether the process has a descriptor of that kernel object, as far as may be seen from here.
bool HasOpen(const std::string& process, const std::string& wanted) {
  const std::string folder = "/proc/" + process + "/fd/";
  bool has = false;
  ForEachEntry(folder, [&](const std::string& fd) {
    std::error_code error;
    has = std::filesystem::read_symlink(folder + fd, error) == wanted;
    return !has;
  });
  return has;
}

}  // namespace

std::optional<SocketHolder> FindSocketHolder(uint64_t inode, std::optional<int32_t> likely) {
  const std::string wanted = "socket:[" + std::to_string(inode) + "]";
  const std::string first = likely ? std::to_string(*likely) : "";
  size_t read = 0;
  if (likely && *likely > 0) {
    ++read;
    if (HasOpen(first, wanted)) return SocketHolder{LookAtNamespaces(*likely, {}), read};
  }
  std::optional<SocketHolder> found;
  ForEachEntry("/proc", [&](const std::string& name) {
    if (name.find_first_not_of("0123456789") != std::string::npos || name == first) return true;
    ++read;
    if (HasOpen(name, wanted)) found = {LookAtNamespaces(std::stoi(name), {}), read};
    return !found;
  });
  return found;
}

}  // namespace onecopy::os
