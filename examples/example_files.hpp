// A fresh database file for an example.
#pragma once

#include <filesystem>
#include <string>

inline std::string fresh_database(std::string const& name) {
  auto const path = (std::filesystem::temp_directory_path() / ("outbox-example-" + name + ".db")).string();
  for (auto const* suffix : {"", "-wal", "-shm", "-outbox_event.lock"}) std::filesystem::remove(path + suffix);
  return path;
}
