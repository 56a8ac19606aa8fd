// The verbs of the tool with their options, texts and examples. Help, completions and manual pages are made from it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <outbox/error.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace outbox_tool {

/// A command line to copy, and what it does.
struct example {
  std::string line;
  std::string what;
};

/// What help says about a verb, besides its options.
struct verb_text {
  std::string summary;              ///< Half a sentence, as in "list events".
  std::string details{};            ///< Paragraphs, divided by empty lines.
  std::vector<example> examples{};  ///< The most frequent first.
  std::string status{};             ///< What its exit status means, if it is special.
};

struct verb {
  CLI::App* app = nullptr;
  verb_text text;
  std::function<int()> run;
};

class command_tree {
 public:
  command_tree();
  command_tree(command_tree const&) = delete;
  command_tree& operator=(command_tree const&) = delete;

  /// Adds a verb. `run` is called when the command line names it; it returns the exit status.
  CLI::App& add(std::string const& name, verb_text text, std::function<int()> run);

  /// Reads the command line and runs the verb. Prints errors. Returns the exit status.
  int run(int argc, char const* const* argv);

  [[nodiscard]] std::vector<verb> const& verbs() const noexcept { return verbs_; }
  [[nodiscard]] CLI::App const& root() const noexcept { return root_; }

  /// The help of a verb, or of the tool if it is null. Lines are at most `width` wide.
  [[nodiscard]] std::string help(verb const* of, std::size_t width) const;

 private:
  [[nodiscard]] verb const* find(CLI::App const* app) const;
  void refuse_unknown_verb(int argc, char const* const* argv) const;
  int run_verb(verb const& v) const;

  CLI::App root_;
  std::vector<verb> verbs_;
};

/// The exit status of a verb that an error of the library ends.
[[nodiscard]] int status_of(outbox::error const& e);

/// What help says about the tool itself. Its summary is half a sentence, too.
[[nodiscard]] verb_text const& tool_text();

/// An option as help, completions and manual pages show it.
struct option_text {
  std::string group;
  std::vector<std::string> names;  ///< With their dashes; empty for an argument, which has none.
  std::string value;  ///< The name of its value; empty for a flag. Completions know FILE, STATE, VERB, and up|status.
  std::string text;
  bool positional = false;  ///< Its value can be given without a name. If it has names too, then it can be left out.
};

/// The options of a verb, arguments first.
[[nodiscard]] std::vector<option_text> options_of(CLI::App const& verb);

/// Options under one heading.
struct option_group {
  std::string name;
  std::vector<option_text> options;
};

/// The same, by their groups. Arguments have a group of their own.
[[nodiscard]] std::vector<option_group> groups_of(CLI::App const& verb);

/// What follows the name of the verb on a command line, as in "[ID…]", besides options. It may be empty.
[[nodiscard]] std::vector<std::string> arguments_of(CLI::App const& verb);

/// An exit status and what it means.
struct status_text {
  std::string number, meaning;
};

/// "0 success; 1 failure." as a list.
[[nodiscard]] std::vector<status_text> exit_statuses_of(std::string const& text);

}  // namespace outbox_tool
