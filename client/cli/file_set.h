// Several files and folders as one thing to copy: which files there are, and where each goes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::cli {

struct FileInSet {
  std::string path;  // to open
  std::string name;  // of a file: its last part; of one in a folder: its path from there
  uint64_t bytes = 0;
  uint64_t offset_bytes = 0;  // in a pack
  bool executable = false;    // by its owner
};

// What of a folder is left out, and why: "a FIFO".
struct LeftOut {
  std::string path;
  std::string why;
};

struct FileSet {
  std::vector<FileInSet> files;
  std::vector<std::string> folders;  // those without files below them, as FileInSet::name
  std::vector<LeftOut> left_out;
};

// What people type, files and folders, as files by name. Links are followed to files, not to
// folders. What in a folder is neither a file nor a folder is left out. INVALID_ARGUMENT
// (NAME_TAKEN) where two have one name, BAD_NAME for a name that is not UTF-8, BAD_ENDPOINT for
// what is typed and no file, and for too many.
Result<FileSet> FindFiles(const std::vector<std::string>& typed);

// The name of a buffer for the file: its own, with '.' for '/'. INVALID_ARGUMENT (BAD_NAME) where
// that is none.
Result<std::string> BufferNameOf(const FileInSet& file);

// All files in one buffer: an index, then each at a multiple of 64 bytes, in the order of the
// names. The index is 8 bytes with a length, least byte first, so many bytes of JSON, and zeros up
// to a multiple of 4096:
//   {"onecopy": "pack", "version": 1, "files": [{"name": "a/b", "offset": 4096, "bytes": 7}, …]}
// A file that its owner may run has "executable": true. Folders without files, if there are any,
// are in "folders", a list of names.
struct Pack {
  std::vector<FileInSet> files;  // with their offsets
  std::string index;
  uint64_t bytes = 0;
};
// INVALID_ARGUMENT: NAME_TAKEN where something would be a file and also a folder, BAD_NAME for a
// folder whose name is not UTF-8, BAD_ENDPOINT for too many.
Result<Pack> MakePack(FileSet set);

// How long the index is that begins so, without its padding: 8 bytes and its text. 0: no index
// begins so.
uint64_t IndexBytes(std::string_view beginning);

// The files and folders that an index lists, of a buffer of `bytes`. INVALID_ARGUMENT (BAD_FORMAT)
// for a text that is not an index, for a name that leads out of a folder or occurs twice, for more
// than a pack can have, and for a file that leaves the buffer: the buffer may be another user's.
Result<FileSet> ReadIndex(std::string_view index, uint64_t bytes);

}  // namespace onecopy::cli
