// Reads the settings of one table of a configuration, and finds those that do not exist.
#pragma once

#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/text_forms.hpp"
#include "config/value.hpp"

namespace outbox::inline v0::configuration {

/// One of several words.
template <class E>
struct choice {
  std::string_view word;
  E means;
};

/// What reading has found so far.
struct findings {
  std::vector<std::string> problems{};                        ///< A line for each.
  std::vector<std::string> said{};                            ///< "poll.every = 500ms", without secrets.
  std::vector<std::pair<std::string, std::string>> places{};  ///< Of each setting that was given.
};

/// The functions that describe the settings (describe.hpp) call one of these, or a `lister`, which has the same
/// members.
class reader {
 public:
  reader(value const& table, std::string path, findings& f) : table_{table}, path_{std::move(path)}, f_{f} {}
  reader(reader const&) = delete;
  reader& operator=(reader const&) = delete;

  /// Whatever was not asked for is unknown.
  ~reader();

  [[nodiscard]] std::string const& where() const noexcept { return table_.where; }
  [[nodiscard]] std::string const& path() const noexcept { return path_; }
  [[nodiscard]] std::string key(std::string_view name) const {
    return path_.empty() ? std::string{name} : path_ + "." + std::string{name};
  }
  [[nodiscard]] bool has(std::string_view name) const noexcept { return table_.find(name) != nullptr; }
  void complain(std::string const& problem) { f_.problems.push_back(where_of({}) + ": " + problem); }
  void complain(std::string_view name, std::string const& problem) {
    f_.problems.push_back(where_of(name) + ": " + key(name) + " " + problem);
  }
  void require(std::string_view name, std::string_view example);

  void field(std::string_view name, bool& into);
  void field(std::string_view name, std::string& into);
  void field(std::string_view name, std::chrono::milliseconds& into);
  template <std::integral T>
  void field(std::string_view name, T& into) {
    std::uint64_t n = 0;
    if (number(name, n, static_cast<std::uint64_t>(std::numeric_limits<T>::max()))) into = static_cast<T>(n);
  }
  template <class T>
  void field(std::string_view name, std::optional<T>& into) {
    T one{};
    field(name, one);
    if (has(name)) into = std::move(one);
  }
  template <class E, std::size_t N>
  void one_of(std::string_view name, E& into, choice<E> const (&words)[N]) {
    std::string text;
    field(name, text);
    if (!has(name)) return;
    std::vector<std::string> known;
    for (auto const& w : words) {
      if (text == w.word) {
        into = w.means;
        return;
      }
      known.emplace_back(w.word);
    }
    wrong_word(name, text, known);
  }

  /// A text whose value is not shown to anyone.
  void secret(std::string_view name, std::string& into);

  /// A URL whose query is not shown to anyone.
  void address(std::string_view name, std::string& into);

  /// A table inside this one: calls `f(reader&)` if it is there.
  template <class F>
  void section(std::string_view name, F&& f) {
    if (auto const* const v = take(name, value::kind::table, "a table")) {
      reader inside{*v, key(name), f_};
      f(inside);
    }
  }
  /// A table that may be absent: `into` is made if it is there.
  template <class T, class F>
  void section(std::string_view name, std::optional<T>& into, F&& f) {
    section(name, [&](reader& r) { f(r, into.emplace()); });
  }

  /// A list of tables: calls `f(reader&)` for each.
  template <class F>
  void list(std::string_view name, F&& f) {
    auto const* const v = take(name, value::kind::list, "a list of tables, [[" + key(name) + "]]");
    if (v == nullptr) return;
    for (std::size_t i = 0; i < v->members.size(); ++i) {
      auto const& one = v->members[i].second;
      auto const path = key(name) + "[" + std::to_string(i) + "]";
      if (one.is != value::kind::table) {
        f_.problems.push_back(one.where + ": " + path + " must be a table, it is " + std::string{name_of(one.is)});
        continue;
      }
      reader inside{one, path, f_};
      f(inside);
    }
  }

  /// A table with names of the user's own: calls `f(name, reader&)` for each of its tables.
  template <class F>
  void tables(std::string_view name, F&& f) {
    auto const* const v = take(name, value::kind::table, "a table");
    if (v == nullptr) return;
    for (auto const& [own, one] : v->members) {
      auto const path = key(name) + "." + own;
      if (one.is != value::kind::table) {
        f_.problems.push_back(one.where + ": " + path + " must be a table, it is " + std::string{name_of(one.is)});
        continue;
      }
      reader inside{one, path, f_};
      f(own, inside);
    }
  }

  /// A table of texts with names of the user's own, whose values may be secrets.
  void texts(std::string_view name, std::vector<std::pair<std::string, std::string>>& into, bool secrets);

 private:
  [[nodiscard]] value const* take(std::string_view name, value::kind k, std::string const& wanted);
  [[nodiscard]] value const* scalar(std::string_view name, std::string const& wanted);
  [[nodiscard]] value const* hidden_text(std::string_view name, std::string& into);
  [[nodiscard]] bool number(std::string_view name, std::uint64_t& into, std::uint64_t most);
  [[nodiscard]] std::string where_of(std::string_view name) const;
  void wrong_word(std::string_view name, std::string const& text, std::vector<std::string> const& known);
  void note(std::string_view name, std::string const& shown);

  value const& table_;
  std::string path_;
  findings& f_;
  std::vector<std::string> known_;
};

}  // namespace outbox::inline v0::configuration
