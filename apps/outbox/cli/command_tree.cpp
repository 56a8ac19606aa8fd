#include "cli/command_tree.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <outbox/config.hpp>
#include <outbox/error.hpp>
#include <outbox/version.hpp>
#include <sstream>

#include "cli/nearest.hpp"
#include "cli/shown_text.hpp"
#include "cli/tool_error.hpp"

namespace outbox_tool {
namespace {

// Words up to `width`, every line after `indent` spaces.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::istringstream words{std::string{text}};
  std::string result, line, word;
  while (words >> word) {
    if (!line.empty() && indent + width_of(line) + 1 + width_of(word) > width) {
      result += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return line.empty() ? result : result + std::string(indent, ' ') + line + "\n";
}

std::string paragraphs(std::string_view text, std::size_t width) {
  std::string result;
  while (!text.empty()) {
    auto const end = std::min(text.find("\n\n"), text.size());
    result += (result.empty() ? "" : "\n") + wrapped(text.substr(0, end), 0, width);
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return result;
}

// "  left      text", the text in its own column.
std::string two_columns(std::string const& left, std::string_view text, std::size_t column, std::size_t width) {
  auto right = wrapped(text, column, width);
  if (width_of(left) + 2 >= column) return "  " + left + "\n" + right;
  auto const begin = "  " + left;
  return begin + right.substr(std::min(right.size(), width_of(begin)));
}

std::string left_of(option_text const& o) {
  if (o.names.empty()) return o.value;
  std::string text;
  for (auto const& n : o.names) text += (text.empty() ? "" : ", ") + n;
  return o.value.empty() ? text : text + " " + o.value;
}

std::string grouped_options(CLI::App const& verb, std::size_t width) {
  std::string text;
  for (auto const& g : groups_of(verb)) {
    text += "\n" + g.name + ":\n";
    for (auto const& o : g.options) text += two_columns(left_of(o), o.text, 28, width);
  }
  return text;
}

std::string examples_of(std::vector<example> const& examples) {
  std::string text = "Examples:\n";
  for (auto const& e : examples) text += "  # " + e.what + "\n  " + e.line + "\n";
  return text;
}

std::size_t help_width() {
  ::winsize size{};
  bool const known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::clamp<std::size_t>(size.ws_col, 60, 100) : 100;
}

// Access that the server refuses: PostgreSQL's and MariaDB's codes, and what MariaDB and Redis say. Versions of Redis
// have different words for a script that does what its user may not.
bool is_permission(outbox::error const& e) {
  static constexpr std::string_view states[] = {"42501", "28000", "28P01"};
  static constexpr std::string_view words[] = {"denied",    "NOPERM",      "NOAUTH",
                                               "WRONGPASS", "ACL failure", "The user executing the script can't"};
  std::string_view const said = e.what();
  return std::ranges::find(states, e.sqlstate()) != std::end(states) ||
         std::ranges::any_of(words, [&](std::string_view w) { return said.find(w) != std::string_view::npos; });
}

void complain(std::string const& verb, std::string const& what, std::string const& hint = {}) {
  auto text = "outbox" + (verb.empty() ? "" : " " + verb) + ": " + shown(what, true) + "\n";
  if (!hint.empty()) text += hint + "\n";
  std::fputs(text.c_str(), stderr);
}

}  // namespace

int status_of(outbox::error const& e) {
  switch (e.code()) {
    case outbox::errc::invalid_option: return exit_usage;
    case outbox::errc::unavailable: return exit_unreachable;
    default: return is_permission(e) ? exit_permission : exit_failed;
  }
}

verb_text const& tool_text() {
  static verb_text const text{
      .summary = "deliver the events of transactional outboxes, and look after their tables",
      .details =
          "Events that services write to a table, in the transaction of the change that they tell of, are delivered "
          "after the commit: at least once, and never for a transaction that rolled back. This tool delivers them and "
          "looks after the tables.",
      .examples = {{"outbox status --db sqlite:shop.db", "is everything delivered?"},
                   {"outbox doctor --db postgresql://ops@db1/shop", "is the database set up well?"},
                   {"outbox relay --config relay.toml", "publish events until a signal ends it"}},
      .status =
          "0 success; 1 failure, or a finding of status and doctor; 2 wrong command line or configuration; 3 nothing "
          "matched (--fail-if-empty); 4 the database does not answer; 5 no outbox table, or another schema; 6 no "
          "permission; 7 a bulk change ended early; 130 interrupted."};
  return text;
}

std::vector<option_text> options_of(CLI::App const& verb) {
  std::vector<option_text> all;
  for (auto const* const o : verb.get_options([](CLI::Option const* x) { return !x->get_group().empty(); })) {
    option_text t{.group = o->get_group(),
                  .names = {},
                  .value = {},
                  .text = o->get_description(),
                  .positional = o->get_positional()};
    for (auto const& n : o->get_snames()) t.names.push_back("-" + n);
    for (auto const& n : o->get_lnames()) t.names.push_back("--" + n);
    auto const type = o->get_type_name();
    auto const name = type.substr(0, type.find(':'));  // what checks it stands behind a colon
    if (o->get_items_expected_max() > 0) t.value = name;
    if (t.names.empty()) {
      t.value = name;
      t.group = "Arguments";
    }
    all.push_back(std::move(t));
  }
  std::ranges::stable_partition(all, [](option_text const& o) { return o.names.empty(); });
  return all;
}

std::vector<option_group> groups_of(CLI::App const& verb) {
  std::vector<option_group> all;
  for (auto& o : options_of(verb)) {
    auto at = std::ranges::find(all, o.group, &option_group::name);
    if (at == all.end()) at = all.insert(at, {o.group, {}});
    at->options.push_back(std::move(o));
  }
  return all;
}

std::vector<std::string> arguments_of(CLI::App const& verb) {
  std::vector<std::string> all;
  for (auto const& o : options_of(verb)) {
    if (o.positional) all.push_back(o.names.empty() ? o.value : "[" + o.value + "]");
  }
  return all;
}

std::vector<status_text> exit_statuses_of(std::string const& text) {
  std::vector<status_text> all;
  auto rest = std::string_view{text};
  if (rest.ends_with('.')) rest.remove_suffix(1);
  while (!rest.empty()) {
    auto const end = std::min(rest.find("; "), rest.size());
    auto const one = rest.substr(0, end);
    auto const space = std::min(one.find(' '), one.size());
    all.push_back({std::string{one.substr(0, space)}, std::string{one.substr(std::min(space + 1, one.size()))}});
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return all;
}

command_tree::command_tree() : root_{"outbox"} {
  root_.name("outbox");
  root_.set_help_flag();
  root_.require_subcommand(0, 1);
  root_.option_defaults()->group("Options");
  root_.add_flag("-h,--help")->description("print this help");
  root_.add_flag("--version")->description("print the version");
}

CLI::App& command_tree::add(std::string const& name, verb_text text, std::function<int()> run) {
  auto* const app = root_.add_subcommand(name, text.summary);
  app->set_help_flag();
  app->allow_extras();
  app->option_defaults()->group("Options");
  app->add_flag("-h,--help")->description("print this help");
  verbs_.push_back({app, std::move(text), std::move(run)});
  return *app;
}

verb const* command_tree::find(CLI::App const* app) const {
  auto const at = std::ranges::find(verbs_, app, &verb::app);
  return at == verbs_.end() ? nullptr : &*at;
}

std::string command_tree::help(verb const* of, std::size_t width) const {
  if (of == nullptr) {
    auto const& tool = tool_text();
    std::string text = "outbox: " + tool.summary + "\n\n" + examples_of(tool.examples);
    text += "\nUsage: outbox VERB [OPTIONS]\n\n" + paragraphs(tool.details, width) + "\nVerbs:\n";
    for (auto const& v : verbs_) text += two_columns(v.app->get_name(), v.text.summary, 18, width);
    text += grouped_options(root_, width);
    return text + "\nExit status:\n" + wrapped(tool.status, 2, width) +
           "\noutbox VERB --help says more about a verb.\n";
  }
  auto const name = of->app->get_name();
  std::string text = "outbox " + name + ": " + of->text.summary + "\n\n";
  if (!of->text.examples.empty()) text += examples_of(of->text.examples) + "\n";
  std::string usage = "Usage: outbox " + name;
  for (auto const& a : arguments_of(*of->app)) usage += " " + a;
  text += usage + " [OPTIONS]\n";
  if (!of->text.details.empty()) text += "\n" + paragraphs(of->text.details, width);
  text += grouped_options(*of->app, width);
  if (!of->text.status.empty()) text += "\nExit status:\n" + wrapped(of->text.status, 2, width);
  return text;
}

void command_tree::refuse_unknown_verb(int argc, char const* const* argv) const {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  names.reserve(verbs_.size());
  for (auto const& v : verbs_) names.push_back(v.app->get_name());
  std::string const given = argv[1];
  if (std::ranges::find(names, given) != names.end()) return;
  auto const like = nearest(given, names);
  refuse("there is no verb '" + given + "'" + (like ? ": did you mean '" + *like + "'?" : ""),
         "outbox --help lists the verbs.");
}

int command_tree::run_verb(verb const& v) const {
  auto const name = v.app->get_name();
  if (auto const extra = v.app->remaining(); !extra.empty()) {
    std::vector<std::string> known;
    for (auto const& o : options_of(*v.app)) std::ranges::copy(o.names, std::back_inserter(known));
    auto const& first = extra.front();
    auto const given = first.substr(0, first.find('='));
    auto const like = first.starts_with("-") ? nearest(given, known) : std::nullopt;
    auto const what = first.starts_with("-") ? "unknown option '" + given + "'" : "unexpected argument '" + first + "'";
    refuse(what + (like ? ": did you mean '" + *like + "'?" : ""), "outbox " + name + " --help lists the options.");
  }
  return v.run();
}

int command_tree::run(int argc, char const* const* argv) {
  std::string name;
  try {
    refuse_unknown_verb(argc, argv);
    root_.parse(argc, argv);
    auto const chosen = root_.get_subcommands();
    auto const* const v = chosen.empty() ? nullptr : find(chosen.front());
    if (v != nullptr) name = v->app->get_name();
    if (v == nullptr && root_.count("--version") > 0) {
      std::fputs(("outbox " + std::string{outbox::version()} + "\n").c_str(), stdout);
      return exit_good;
    }
    bool const asked = v != nullptr ? v->app->count("--help") > 0 : root_.count("--help") > 0;
    if (asked || v == nullptr) {
      std::fputs(help(v, help_width()).c_str(), asked ? stdout : stderr);
      return asked ? exit_good : exit_usage;
    }
    return run_verb(*v);
  } catch (CLI::ParseError const& e) {
    for (auto const* const a : root_.get_subcommands()) {
      name = a->get_name();
      if (a->count("--help") == 0) continue;  // a missing argument does not matter then
      std::fputs(help(find(a), help_width()).c_str(), stdout);
      return exit_good;
    }
    complain(name, e.what(), "outbox " + (name.empty() ? "" : name + " ") + "--help says how it is used.");
    return exit_usage;
  } catch (tool_error const& e) {
    complain(name, e.what(), e.hint());
    return e.status();
  } catch (outbox::config_error const& e) {
    for (auto const& p : e.problems()) std::fputs((p + "\n").c_str(), stderr);
    return exit_usage;
  } catch (outbox::error const& e) {
    complain(name, e.what());
    return status_of(e);
  } catch (std::exception const& e) {
    complain(name, e.what());
    return exit_failed;
  }
}

}  // namespace outbox_tool
