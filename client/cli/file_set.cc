#include "client/cli/file_set.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "client/cli/output/document.h"
#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "onecopy/utf8.h"
#include "transport/core/base/name.h"
#include "transport/os/base/error.h"

namespace onecopy::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 65'536;
constexpr size_t kMaxName = 4096;  // no path is longer
constexpr uint64_t kFileAlignment = 64;
constexpr uint64_t kIndexAlignment = 4096;
constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxIndex = uint64_t{64} << 20;  // read at once; 65,536 names of 1 KB

uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Status Failed(const std::error_code& error, const std::string& path) {
  return os::ErrnoStatus(error.value(), "looking at " + path);
}

Status NoFile(const std::string& path) {
  return {Code::kInvalidArgument, reasons::kBadEndpoint,
          Quote(path) + " is neither a regular file nor a folder",
          "name files and folders of this machine, as ./NAME or /path/NAME"};
}

Status NotUtf8(const fs::path& path) {
  return {Code::kInvalidArgument, reasons::kBadName,
          "the name of " + Quote(path.string()) + " is not UTF-8", "rename it"};
}

Status TooMany(const std::string& what) {
  return {Code::kInvalidArgument, reasons::kBadEndpoint,
          "more than " + std::to_string(kMaxFiles) + " " + what,
          "copy them in several runs, or as one file (tar)"};
}

// Adds the file of that name.
Status Add(const fs::path& path, const std::string& name, std::vector<FileInSet>& files) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return error ? Failed(error, path.string()) : NoFile(path.string());
  }
  if (!IsUtf8(name)) return NotUtf8(path);
  const uint64_t bytes = fs::file_size(path, error);
  if (error) return Failed(error, path.string());
  if (files.size() >= kMaxFiles) return TooMany("files");
  const fs::perms mode = fs::status(path, error).permissions();
  const bool executable = !error && (mode & fs::perms::owner_exec) != fs::perms::none;
  files.push_back({path.string(), name, bytes, 0, executable});
  return OkStatus();
}

// Says in words what a path is that is not a regular file; empty for a regular file.
std::string WhatElse(const fs::path& path, std::error_code& error) {
  switch (fs::status(path, error).type()) {
    case fs::file_type::regular:
      return {};
    case fs::file_type::not_found:
      error.clear();
      return "a link to nothing";
    case fs::file_type::directory:
      return "a link to a folder";
    case fs::file_type::fifo:
      return "a FIFO";
    case fs::file_type::socket:
      return "a socket";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device";
    default:
      return "neither a file nor a folder";
  }
}

// Of these folders, by name, those that no file is in, nor another one of them.
std::vector<std::string> WithoutFiles(std::set<std::string> folders,
                                      const std::vector<FileInSet>& files) {
  const std::set<std::string> all = folders;
  const auto drop_parents = [&](const std::string& name) {
    for (fs::path at = fs::path(name).parent_path(); !at.empty(); at = at.parent_path()) {
      folders.erase(at.generic_string());
    }
  };
  for (const FileInSet& file : files) drop_parents(file.name);
  for (const std::string& folder : all) drop_parents(folder);
  return {folders.begin(), folders.end()};
}

Status AddFolder(const fs::path& folder, std::set<std::string>& folders, FileSet& set) {
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, error);
       entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (error) return Failed(error, folder.string());
    const fs::path& path = entry->path();
    const std::string name = path.lexically_relative(folder).generic_string();
    if (entry->is_directory(error) && !entry->is_symlink(error)) {
      folders.insert(name);
      continue;
    }
    const std::string other = WhatElse(path, error);
    if (error) return Failed(error, path.string());
    if (!other.empty()) {
      set.left_out.push_back({path.string(), other});
      continue;
    }
    ONECOPY_RETURN_IF_ERROR(Add(path, name, set.files));
  }
  return error ? Failed(error, folder.string()) : OkStatus();
}

// What is a file, and also a folder that is listed or has something in it; empty: nothing is.
std::string BothIn(const FileSet& set) {
  struct Entry {
    std::string_view name;
    bool file = false;
  };
  std::vector<Entry> entries;
  for (const FileInSet& file : set.files) entries.push_back({file.name, true});
  for (const std::string& folder : set.folders) entries.push_back({folder, false});
  // With '/' before all else, what is in a folder follows the folder.
  const auto order = [](char c) {
    return c == '/' ? 0 : static_cast<int>(static_cast<uint8_t>(c));
  };
  std::ranges::sort(entries, [&](const Entry& a, const Entry& b) {
    return std::ranges::lexicographical_compare(a.name, b.name, {}, order, order);
  });
  for (size_t i = 1; i < entries.size(); ++i) {
    const auto& [before, file] = entries[i - 1];
    const auto& [name, other] = entries[i];
    const bool inside = name.size() > before.size() && name[before.size()] == '/';
    if (!name.starts_with(before)) continue;
    if ((name == before && file != other) || (file && inside)) return std::string(before);
  }
  return {};
}

// Whether a text can be an index: JSON that is deeper, or has far more values, would take many
// times its length of memory and time.
bool IsModest(std::string_view text) {
  constexpr int kDeepest = 3;                       // all, the list, a file
  constexpr uint64_t kMostValues = 10 * kMaxFiles;  // a file has five
  int depth = 0;
  uint64_t values = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      i += c == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest || ++values > kMostValues) return false;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ',' && ++values > kMostValues) {
      return false;
    }
  }
  return true;
}

std::string IndexOf(const FileSet& set) {
  Json list = Json::array();
  for (const FileInSet& file : set.files) {
    Json entry = {{"name", file.name}, {"offset", file.offset_bytes}, {"bytes", file.bytes}};
    if (file.executable) entry["executable"] = true;
    list.push_back(std::move(entry));
  }
  Json index = {{"onecopy", "pack"}, {"version", 1}, {"files", std::move(list)}};
  if (!set.folders.empty()) index["folders"] = set.folders;
  return index.dump();
}

// Places the files behind an index of that many bytes; where the last one ends.
uint64_t Place(uint64_t index_bytes, std::vector<FileInSet>& files) {
  uint64_t end = index_bytes;
  for (FileInSet& file : files) {
    file.offset_bytes = RoundUp(end, kFileAlignment);
    end = file.offset_bytes + file.bytes;
  }
  return end;
}

}  // namespace

Result<FileSet> FindFiles(const std::vector<std::string>& typed) {
  FileSet set;
  std::vector<FileInSet>& files = set.files;
  std::set<std::string> folders;
  for (const std::string& text : typed) {
    const fs::path path(text);
    std::error_code error;
    if (fs::is_directory(path, error)) {
      ONECOPY_RETURN_IF_ERROR(AddFolder(path, folders, set));
    } else {
      ONECOPY_RETURN_IF_ERROR(Add(path, path.filename().string(), files));
    }
  }
  if (files.empty()) {
    std::string names;
    for (const std::string& text : typed) names += (names.empty() ? "" : ", ") + Printable(text);
    return Status(Code::kInvalidArgument, reasons::kBadEndpoint,
                  "there are no files to copy in " + names,
                  "name files, or folders with files in them");
  }
  std::sort(files.begin(), files.end(),
            [](const FileInSet& a, const FileInSet& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(files.begin(), files.end(),
                         [](const FileInSet& a, const FileInSet& b) { return a.name == b.name; });
  if (twice == files.end()) {
    set.folders = WithoutFiles(std::move(folders), files);
    return set;
  }
  return Status(Code::kInvalidArgument, reasons::kNameTaken,
                Quote(twice->path) + " and " + Quote(std::next(twice)->path) +
                    " would both get the name " + Quote(twice->name),
                "copy them one after the other, or rename one");
}

Result<std::string> BufferNameOf(const FileInSet& file) {
  std::string name = file.name;
  std::replace(name.begin(), name.end(), '/', '.');
  if (IsName(name)) return name;
  return Status(Code::kInvalidArgument, reasons::kBadName,
                "a buffer for " + Quote(file.path) + " would get the name  " + Quote(name) +
                    ", which is not a valid name",
                "a buffer's name has at most 63 letters, digits, '.', '_' and '-', and begins with "
                "a letter or digit; or copy all into one buffer: DST as NODE:NAME");
}

Result<Pack> MakePack(FileSet set) {
  if (const std::string both = BothIn(set); !both.empty()) {
    return Status(Code::kInvalidArgument, reasons::kNameTaken,
                  Quote(both) + " would be a file and also a folder",
                  "copy them one after the other, or rename one");
  }
  if (set.folders.size() > kMaxFiles) return TooMany("folders without files");
  for (const std::string& folder : set.folders) {
    if (!IsUtf8(folder)) return NotUtf8(folder);
  }
  Pack pack;
  std::string text;
  // Offsets are part of the index before them: more room makes no digit fewer, so this ends.
  for (uint64_t room = kIndexAlignment;;
       room = RoundUp(kLengthBytes + text.size(), kIndexAlignment)) {
    pack.bytes = Place(room, set.files);
    text = IndexOf(set);
    if (text.size() > kMaxIndex) {
      return Status(Code::kInvalidArgument, reasons::kBadEndpoint,
                    "the names of the files and folders have more than 64 MiB",
                    "copy them in several runs, or as one file (tar)");
    }
    if (kLengthBytes + text.size() > room) continue;
    for (size_t i = 0; i < kLengthBytes; ++i) {
      pack.index += static_cast<char>(text.size() >> (8 * i) & 0xff);
    }
    pack.index += text;
    pack.index.resize(room, '\0');
    pack.files = std::move(set.files);
    return pack;
  }
}

uint64_t IndexBytes(std::string_view beginning) {
  uint64_t text = 0;
  if (beginning.size() < sizeof text) return 0;
  for (size_t i = sizeof text; i-- > 0;) {
    text = text << 8 | static_cast<unsigned char>(beginning[i]);
  }
  const bool json = beginning.size() == sizeof text || beginning[sizeof text] == '{';
  return text == 0 || text > kMaxIndex || !json ? 0 : sizeof text + text;
}

Result<FileSet> ReadIndex(std::string_view index, uint64_t bytes) {
  const auto bad = [](const std::string& why) {
    return Status(Code::kInvalidArgument, reasons::kBadFormat, "its index of files " + why,
                  "copy it to a file instead of a folder, and look at it");
  };
  const uint64_t length = IndexBytes(index);
  if (length == 0 || length > index.size()) return bad("is cut off");
  const std::string_view text = index.substr(sizeof length, length - sizeof length);
  if (!IsModest(text)) return bad("is not one that this version can read");
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto is = [](const nlohmann::json& object, const char* key, const auto& wanted) {
    const auto found = object.find(key);
    return found != object.end() && *found == wanted;
  };
  if (!json.is_object() || !is(json, "onecopy", "pack") || !is(json, "version", 1) ||
      !json.contains("files") || !json["files"].is_array()) {
    return bad("is not one that this version can read");
  }
  const nlohmann::json folders = json.value("folders", nlohmann::json::array());
  if (!folders.is_array()) return bad("has folders that are not a list");
  if (json["files"].size() > kMaxFiles || folders.size() > kMaxFiles) {
    return bad("has more than " + std::to_string(kMaxFiles) + " entries");
  }
  FileSet set;
  std::set<std::string> names;
  // Why it cannot be the name of something in a folder; empty if it can.
  const auto wrong = [&](const std::string& name) -> std::string {
    if (name.size() > kMaxName) return "has a name of " + std::to_string(name.size()) + " bytes";
    const fs::path path(name);
    const bool outside = std::any_of(path.begin(), path.end(), [](const fs::path& part) {
      return part.empty() || part == "." || part == "..";
    });
    if (name.empty() || path.is_absolute() || outside || name.find('\0') != std::string::npos) {
      return "has the name " + Quote(name) + ", which leads out of a folder";
    }
    return names.insert(name).second ? "" : "has the name " + Quote(name) + " twice";
  };
  for (const nlohmann::json& each : json["files"]) {
    FileInSet file;
    if (!each.is_object() || !each.contains("name") || !each["name"].is_string()) {
      return bad("has a file without a name");
    }
    file.name = each["name"];
    if (const std::string why = wrong(file.name); !why.empty()) return bad(why);
    for (const auto& [key, value] :
         {std::pair{"offset", &file.offset_bytes}, std::pair{"bytes", &file.bytes}}) {
      if (!each.contains(key) || !each[key].is_number_unsigned()) {
        return bad("has no " + std::string(key) + " of " + Quote(file.name));
      }
      *value = each[key];
    }
    if (file.offset_bytes > bytes || file.bytes > bytes - file.offset_bytes) {
      return bad("places " + Quote(file.name) + " outside the buffer");
    }
    file.executable = is(each, "executable", true);
    set.files.push_back(std::move(file));
  }
  for (const nlohmann::json& each : folders) {
    if (!each.is_string()) return bad("has a folder without a name");
    std::string name = each;
    if (const std::string why = wrong(name); !why.empty()) return bad(why);
    set.folders.push_back(std::move(name));
  }
  if (const std::string both = BothIn(set); !both.empty()) {
    return bad("has " + Quote(both) + " as a file and also as a folder");
  }
  return set;
}

}  // namespace onecopy::cli
