// What examples need beside the library: fresh files, and a check that ends the program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

inline std::string fresh_file(std::string const& name) {
  auto const path = (std::filesystem::temp_directory_path() / ("outbox-example-" + name)).string();
  std::filesystem::remove(path);
  return path;
}

inline std::string fresh_database(std::string const& name) {
  auto const path = fresh_file(name + ".db");
  for (auto const* suffix : {"-wal", "-shm", "-outbox_event.lock"}) std::filesystem::remove(path + suffix);
  return path;
}

/// Ends the program with status 1 if what it shows is not so.
inline void must(bool so, char const* what) {
  if (so) return;
  std::printf("not so: %s\n", what);
  std::exit(1);
}
