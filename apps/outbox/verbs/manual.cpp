// `outbox manual`: the manual pages as scdoc, made from the tree of verbs. The packages turn them into pages of man.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <outbox/version.hpp>

#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

// Text without markup: what scdoc would take for it is escaped. `Code` becomes bold.
std::string plain(std::string_view text) {
  std::string result;
  if (!text.empty() && std::string_view{"#-[]|;"}.find(text.front()) != std::string_view::npos) result += '\\';
  for (char const c : text) {
    if (c == '`') {
      result += '*';
      continue;
    }
    if (c == '_' || c == '*' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string bold(std::string_view text) { return "*" + plain(text) + "*"; }
std::string underlined(std::string_view text) { return "_" + plain(text) + "_"; }

// A literal block keeps lines and spaces, and still knows backslashes.
std::string literal(std::string_view text) {
  std::string result = "```\n";
  for (char const c : text) result += c == '\\' ? std::string{"\\\\"} : std::string(1, c);
  return result + "\n```\n\n";
}

std::string definition(std::string const& term, std::string_view text) { return term + "\n\t" + plain(text) + "\n\n"; }

// What stands above the page, at its foot and in its name.
std::string title(std::string const& page, std::string const& summary) {
  return page + "(1) \"outbox " + std::string{outbox::version()} + "\" \"Manual of outbox\"\n\n# NAME\n\n" + page +
         " - " + plain(summary) + "\n\n";
}

std::string description(std::string const& details) {
  if (details.empty()) return {};
  std::string text = "# DESCRIPTION\n\n";
  for (std::size_t at = 0; at < details.size();) {
    auto const end = std::min(details.find("\n\n", at), details.size());
    text += plain(details.substr(at, end - at)) + "\n\n";
    at = end + 2;
  }
  return text;
}

std::string term_of(option_text const& o) {
  std::string term;
  for (auto const& n : o.names) term += (term.empty() ? "" : ", ") + bold(n);
  return o.value.empty() ? term : term + (term.empty() ? "" : " ") + underlined(o.value);
}

// In the groups that help has.
std::string options(CLI::App const& app) {
  std::string text;
  for (auto const& g : groups_of(app)) {
    text += g.name == "Arguments" ? "# ARGUMENTS\n\n" : g.name == "Options" ? "# OPTIONS\n\n" : "## " + g.name + "\n\n";
    for (auto const& o : g.options) text += definition(term_of(o), o.text);
  }
  return text;
}

// As the beginning of a sentence that a command line ends.
std::string introduction(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  if (text.ends_with('?')) return plain(text);
  return plain(text) + (text.find(':') == std::string::npos ? ":" : ".");
}

std::string examples(std::vector<example> const& all) {
  if (all.empty()) return {};
  std::string text = "# EXAMPLES\n\n";
  for (auto const& e : all) text += introduction(e.what) + "\n\n" + literal(e.line);
  return text;
}

std::string exit_status(std::string const& statuses) {
  if (statuses.empty()) return {};
  std::string text = "# EXIT STATUS\n\n";
  for (auto const& s : exit_statuses_of(statuses)) text += definition(bold(s.number), s.meaning);
  return text;
}

std::string page_of(verb const& v) {
  auto const name = v.app->get_name();
  auto synopsis = "# SYNOPSIS\n\n" + bold("outbox " + name);
  for (auto const& a : arguments_of(*v.app)) synopsis += " " + underlined(a);
  return title("outbox-" + name, v.text.summary) + synopsis + " [_options_]\n\n" + description(v.text.details) +
         options(*v.app) + examples(v.text.examples) + exit_status(v.text.status) +
         "# SEE ALSO\n\n*outbox*(1), which lists all verbs, the environment and every exit status\n";
}

std::string front_page(command_tree const& tree) {
  auto const& tool = tool_text();
  std::string verbs = "# VERBS\n\n", pages;
  for (auto const& v : tree.verbs()) {
    auto const page = bold("outbox-" + v.app->get_name()) + "(1)";
    verbs += definition(bold(v.app->get_name()), v.text.summary);
    pages += (pages.empty() ? "" : ", ") + page;
  }
  return title("outbox", tool.summary) + "# SYNOPSIS\n\n*outbox* _verb_ [_options_]\n\n" + description(tool.details) +
         verbs + options(tree.root()) + "# ENVIRONMENT\n\n" +
         definition(bold("OUTBOX_DB"), "the URL of the database, for verbs that take `--db`") +
         definition(bold("OUTBOX_CONFIG"), "the configuration, for verbs that take `--config`") +
         definition(bold("OUTBOX_STORE__URL"), "`store.url` of the configuration, and so on for every key") +
         definition(bold("NO_COLOR"), "no colours, if it is not empty") + examples(tool.examples) +
         exit_status(tool.status) + "# FILES\n\n" +
         definition(underlined("/etc/outbox/relay.toml"), "the configuration of the service outbox-relay") +
         definition(underlined("/usr/share/outbox/grafana/outbox.json"), "a dashboard for Grafana") +
         definition(underlined("/usr/share/outbox/prometheus/outbox-alerts.yml"), "alerts for Prometheus") +
         "# SEE ALSO\n\n" + pages + "\n";
}

// For the build, which makes a page of each.
std::string list_of_pages(command_tree const& tree) {
  std::string text = "outbox\n";
  for (auto const& v : tree.verbs()) text += "outbox-" + v.app->get_name() + "\n";
  return text;
}

struct manual_options {
  std::string verb;
  bool list = false;
};

int run(command_tree const& tree, manual_options const& o) {
  if (o.list || o.verb.empty()) {
    std::fputs((o.list ? list_of_pages(tree) : front_page(tree)).c_str(), stdout);
    return exit_good;
  }
  auto const at = std::ranges::find(tree.verbs(), o.verb, [](verb const& v) { return v.app->get_name(); });
  if (at == tree.verbs().end()) refuse("there is no verb '" + o.verb + "'", "outbox --help lists the verbs.");
  std::fputs(page_of(*at).c_str(), stdout);
  return exit_good;
}

}  // namespace

void add_manual(command_tree& tree) {
  auto const o = std::make_shared<manual_options>();
  auto& verb = tree.add("manual",
                        {.summary = "print a manual page as scdoc, of the tool or of one verb",
                         .details = "The Debian package has the pages: `man outbox-status`.",
                         .examples = {{"outbox manual status | scdoc | man -l -", "read it without the package"}}},
                        [o, &tree] { return run(tree, *o); });
  verb.add_option("verb", o->verb, "a verb; without one, the front page")->type_name("[VERB]");
  verb.add_flag("--list", o->list, "print the names of the pages")->group("");
}

}  // namespace outbox_tool
