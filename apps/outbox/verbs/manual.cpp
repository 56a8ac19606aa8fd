// `outbox manual`: the manual pages as scdoc, made from the tree of verbs. The packages turn them into pages of man.
#include <cstdio>
#include <memory>

#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

// What scdoc would take for markup.
std::string escaped(std::string const& text) {
  std::string result;
  for (char const c : text) {
    if (c == '_' || c == '*' || c == '\\' || c == '<' || c == '~' || c == '#') result += '\\';
    result += c;
  }
  return result;
}

std::string options_text(CLI::App const& app) {
  std::string text;
  for (auto const& o : options_of(app)) {
    std::string names;
    for (auto const& n : o.names) names += (names.empty() ? "" : ", ") + ("*" + escaped(n) + "*");
    if (!o.value.empty()) names += (names.empty() ? "_" : " _") + escaped(o.value) + "_";
    text += names + "\n\t" + escaped(o.text) + "\n\n";
  }
  return text;
}

std::string page_of(verb const& v) {
  auto const name = v.app->get_name();
  std::string text = "outbox-" + name + "(1)\n\n# NAME\n\noutbox-" + name + " - " + escaped(v.text.summary) +
                     "\n\n# SYNOPSIS\n\n*outbox " + name + "* [_options_]\n\n";
  if (!v.text.details.empty()) text += "# DESCRIPTION\n\n" + escaped(v.text.details) + "\n\n";
  text += "# OPTIONS\n\n" + options_text(*v.app);
  if (!v.text.examples.empty()) {
    text += "# EXAMPLES\n\n";
    for (auto const& e : v.text.examples) text += escaped(e.what) + ":\n\n```\n" + e.line + "\n```\n\n";
  }
  if (!v.text.status.empty()) text += "# EXIT STATUS\n\n" + escaped(v.text.status) + "\n\n";
  return text + "# SEE ALSO\n\n*outbox*(1)\n";
}

std::string front_page(command_tree const& tree) {
  std::string text =
      "outbox(1)\n\n# NAME\n\noutbox - deliver the events of transactional outboxes, and look after their tables\n\n"
      "# SYNOPSIS\n\n*outbox* _verb_ [_options_]\n\n# DESCRIPTION\n\n"
      "Events that services write to a table, in the transaction of the change that they tell of, are delivered after "
      "the commit: at least once, and never for a transaction that rolled back.\n\n# VERBS\n\n";
  for (auto const& v : tree.verbs()) {
    text += "*outbox-" + v.app->get_name() + "*(1)\n\t" + escaped(v.text.summary) + "\n\n";
  }
  return text +
         "# ENVIRONMENT\n\n*OUTBOX\\_DB*\n\tthe URL of the database, for verbs that take "
         "*--db*\n\n*OUTBOX\\_CONFIG*\n\tthe "
         "configuration, for verbs that take *--config*\n\n*OUTBOX\\_STORE\\_\\_URL*\n\t_store.url_ of the "
         "configuration, "
         "and so on for every key\n\n*NO\\_COLOR*\n\tno colours, if it is not empty\n\n# EXIT STATUS\n\n"
         "0 success; 1 failure, or a finding of status and doctor; 2 wrong command line or configuration; 3 nothing "
         "matched (*--fail-if-empty*); 4 the database does not answer; 5 no outbox table, or another schema; 6 no "
         "permission; 7 a bulk change ended early; 130 interrupted\n\n# FILES\n\n_/etc/outbox/relay.toml_\n";
}

}  // namespace

void add_manual(command_tree& tree) {
  auto const of = std::make_shared<std::string>();
  auto& verb = tree.add("manual",
                        {.summary = "print a manual page as scdoc, of the tool or of one verb",
                         .examples = {{"outbox manual status | scdoc | man -l -", "read it"}}},
                        [of, &tree] {
                          for (auto const& v : tree.verbs()) {
                            if (v.app->get_name() != *of) continue;
                            std::fputs(page_of(v).c_str(), stdout);
                            return exit_good;
                          }
                          if (!of->empty()) refuse("there is no verb '" + *of + "'");
                          std::fputs(front_page(tree).c_str(), stdout);
                          return exit_good;
                        });
  verb.add_option("verb", *of, "a verb; without one, the front page")->type_name("[VERB]");
}

}  // namespace outbox_tool
