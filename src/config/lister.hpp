// Lists the settings that a configuration can have, with their types and defaults.
#pragma once

#include <outbox/config.hpp>

#include "config/reader.hpp"

namespace outbox::inline v0::configuration {

/// Has the members of a `reader`, and reads nothing.
class lister {
 public:
  lister(std::string path, std::vector<config_key>& into) : path_{std::move(path)}, into_{into} {}

  [[nodiscard]] std::string where() const { return {}; }
  [[nodiscard]] std::string path() const { return path_; }
  void require(std::string_view /*name*/, std::string_view /*example*/) {}

  void field(std::string_view name, bool& v) { add(name, "boolean", v ? "true" : "false"); }
  void field(std::string_view name, std::string& v) { add(name, "text", v); }
  void field(std::string_view name, std::chrono::milliseconds& v) { add(name, "duration", duration_text(v)); }
  template <std::integral T>
  void field(std::string_view name, T& v) {
    add(name, "number", std::to_string(v));
  }
  template <class T>
  void field(std::string_view name, std::optional<T>& /*v*/) {
    T one{};
    field(name, one);
    into_.back().standard.clear();
  }
  void secret(std::string_view name, std::string& v) { add(name, "text", v); }
  void address(std::string_view name, std::string& v) { add(name, "text", v); }
  template <class E, std::size_t N>
  void one_of(std::string_view name, E& v, choice<E> const (&words)[N]) {
    std::string all, standard;
    for (auto const& w : words) {
      all += (all.empty() ? "" : ", ") + std::string{w.word};
      if (w.means == v) standard = w.word;
    }
    add(name, all, standard);
  }

  template <class F>
  void section(std::string_view name, F&& f) {
    lister inside{key(name), into_};
    f(inside);
  }
  template <class T, class F>
  void section(std::string_view name, std::optional<T>& /*v*/, F&& f) {
    T one{};
    section(name, [&](lister& inside) { f(inside, one); });
  }
  template <class F>
  void list(std::string_view name, F&& f) {
    lister inside{key(name) + "[]", into_};
    f(inside);
  }
  template <class F>
  void tables(std::string_view name, F&& f) {
    lister inside{key(name) + ".NAME", into_};
    f(std::string{"NAME"}, inside);
  }
  void texts(std::string_view name, std::vector<std::pair<std::string, std::string>>& /*v*/, bool /*secrets*/) {
    add(std::string{name} + ".NAME", "text", {});
  }

 private:
  [[nodiscard]] std::string key(std::string_view name) const {
    return path_.empty() ? std::string{name} : path_ + "." + std::string{name};
  }
  void add(std::string_view name, std::string type, std::string standard) {
    into_.push_back({key(name), std::move(type), std::move(standard)});
  }

  std::string path_;
  std::vector<config_key>& into_;
};

}  // namespace outbox::inline v0::configuration
