// The findings of a store, by the code of their check.
#pragma once

#include <algorithm>
#include <outbox/spi/store.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace outbox {

/// The finding of this check. Throws if the store does not make it, or says several things about it.
inline spi::finding finding_of(outbox::store& s, std::string const& code, spi::finding_limits const& limits = {}) {
  std::vector<spi::finding> all = s.backend().findings(limits);
  std::erase_if(all, [&](spi::finding const& f) { return f.code != code; });
  if (all.size() != 1) throw std::runtime_error{code + ": " + std::to_string(all.size()) + " findings"};
  return all.front();
}

/// The codes of all findings that are neither passed nor notes, with their level: "warning superuser".
inline std::vector<std::string> complaints_of(outbox::store& s, spi::finding_limits const& limits = {}) {
  std::vector<std::string> all;
  for (auto const& f : s.backend().findings(limits)) {
    if (f.level == spi::finding_level::passed || f.level == spi::finding_level::note) continue;
    all.push_back(std::string{name(f.level)} + " " + f.code);
  }
  return all;
}

}  // namespace outbox
