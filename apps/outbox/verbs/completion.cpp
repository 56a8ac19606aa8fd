// `outbox completion`: what a shell needs to complete command lines, made from the tree of verbs.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/filter_options.hpp"
#include "exit_status.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

using words = std::vector<std::string>;

std::string joined(words const& all, std::string const& between = " ") {
  std::string text;
  for (auto const& w : all) text += (text.empty() ? "" : between) + w;
  return text;
}

std::string replaced(std::string const& text, std::string_view specials, std::string const& before) {
  std::string result;
  for (char const c : text) result += (specials.find(c) == std::string_view::npos ? "" : before) + c;
  return result;
}

// In single quotes of bash and zsh, which know no escapes: a quote ends them, and they begin again after it.
std::string in_quotes(std::string const& text) {
  std::string result = "'";
  for (char const c : text) result += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
  return result + "'";
}

words verbs_of(command_tree const& tree) {
  words all;
  for (auto const& v : tree.verbs()) all.push_back(v.app->get_name());
  return all;
}

words names_of(CLI::App const& app) {
  words all;
  for (auto const& o : options_of(app)) all.insert(all.end(), o.names.begin(), o.names.end());
  return all;
}

// What a value can be.
struct value_kind {
  words choices{};
  bool file = false;  ///< It names a file.
  bool list = false;  ///< Several choices, divided by commas.
};

value_kind kind_of(command_tree const& tree, option_text const& o) {
  auto name = o.value;
  std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
  if (name == "FILE") return {.file = true};
  if (name == "STATE") return {.choices = state_words(), .list = true};
  if (name == "VERB") return {.choices = verbs_of(tree)};
  value_kind kind;
  if (name.find('|') == std::string::npos) return kind;
  for (std::size_t at = 0; at <= name.size();) {
    auto const end = std::min(name.find('|', at), name.size());
    kind.choices.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  return kind;
}

// --- bash -----------------------------------------------------------------------------------------------------------

std::string bash_value(value_kind const& k) {
  if (k.file) return "_outbox_files";
  if (k.choices.empty()) return "";
  return (k.list ? "_outbox_list " : "_outbox_words ") + in_quotes(joined(k.choices));
}

// Branches for the options with a value, and one for all else: options, and arguments if they are known.
std::string bash_verb(command_tree const& tree, verb const& v) {
  std::string branches;
  words unknown, offered = names_of(*v.app);
  bool files = false;
  for (auto const& o : options_of(*v.app)) {
    auto const kind = kind_of(tree, o);
    auto const value = bash_value(kind);
    if (!o.value.empty() && value.empty()) unknown.insert(unknown.end(), o.names.begin(), o.names.end());
    if (!o.names.empty() && !value.empty()) branches += "        " + joined(o.names, " | ") + ") " + value + " ;;\n";
    if (!o.positional) continue;
    files = files || kind.file;
    offered.insert(offered.end(), kind.choices.begin(), kind.choices.end());
  }
  if (!unknown.empty()) branches += "        " + joined(unknown, " | ") + ") ;;\n";
  return "    " + v.app->get_name() + ")\n      case $before in\n" + branches + "        *) " +
         (files ? "_outbox_words_or_files " : "_outbox_words ") + in_quotes(joined(offered)) +
         " ;;\n      esac\n      ;;\n";
}

std::string bash(command_tree const& tree) {
  std::string cases;
  for (auto const& v : tree.verbs()) cases += bash_verb(tree, v);
  return R"(# bash completion for outbox, printed by `outbox completion bash`

_outbox_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word"); }

# Words divided by commas: the last one is completed.
_outbox_list() {
  local front=
  [[ $word == *,* ]] && front=${word%,*},
  mapfile -t COMPREPLY < <(compgen -P "$front" -W "$1" -- "${word##*,}")
  compopt -o nospace 2>/dev/null
}

_outbox_files() {
  mapfile -t COMPREPLY < <(compgen -f -- "$word")
  compopt -o filenames 2>/dev/null
}

_outbox_words_or_files() {
  if [[ $word == -* ]]; then _outbox_words "$1"; else _outbox_files; fi
}

_outbox() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  # --state=dead is three words for bash.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [[ $before == *[\<\>] ]]; then
    _outbox_files
    return
  fi
  if ((COMP_CWORD == 1)); then
    _outbox_words )" +
         in_quotes(joined(verbs_of(tree)) + " " + joined(names_of(tree.root()))) + R"(
    return
  fi
  case ${COMP_WORDS[1]} in
)" + cases +
         R"(  esac
}

complete -F _outbox outbox
)";
}

// --- zsh ------------------------------------------------------------------------------------------------------------

// ":name:action" of _arguments. A space as the action: nothing is offered, and the name is shown.
std::string zsh_value(value_kind const& k, std::string const& name) {
  std::string action = " ";
  if (k.file) action = "_files";
  if (k.list) action = "_values -s , " + name + " " + joined(k.choices);
  if (!k.choices.empty() && !k.list) action = "(" + joined(k.choices) + ")";
  return ":" + replaced(name, ":", "\\") + ":" + action;
}

// One line for each name; those of one option exclude each other.
std::string zsh_option(command_tree const& tree, option_text const& o) {
  auto const kind = kind_of(tree, o);
  std::string text;
  for (auto const& n : o.names) {
    auto spec = o.names.size() > 1 ? "(" + joined(o.names) + ")" : std::string{};
    spec += n + (o.value.empty() ? "" : n.starts_with("--") ? "=" : "+");
    spec += "[" + replaced(o.text, "[]\\:", "\\") + "]" + (o.value.empty() ? "" : zsh_value(kind, o.value));
    text += " \\\n        " + in_quotes(spec);
  }
  if (o.positional) {
    bool const many = o.value.find("…") != std::string::npos;
    text += " \\\n        " + in_quotes((many ? "*" : "") + zsh_value(kind, o.value));
  }
  return text;
}

std::string zsh(command_tree const& tree) {
  std::string verbs, cases, options;
  for (auto const& o : options_of(tree.root())) options += zsh_option(tree, o);
  for (auto const& v : tree.verbs()) {
    verbs += "    " + in_quotes(v.app->get_name() + ":" + v.text.summary) + "\n";
    cases += "    " + v.app->get_name() + ")\n      _arguments -s";
    for (auto const& o : options_of(*v.app)) cases += zsh_option(tree, o);
    cases += "\n      ;;\n";
  }
  return R"(#compdef outbox
# zsh completion for outbox, printed by `outbox completion zsh`

_outbox() {
  local -a verbs=(
)" + verbs +
         R"(  )
  if ((CURRENT == 2)); then
    if [[ $words[2] == -* ]]; then
      _arguments)" +
         options + R"(
    else
      _describe -t verbs verb verbs
    fi
    return
  fi
  local verb=$words[2]
  shift words
  ((CURRENT--))
  case $verb in
)" + cases +
         R"(  esac
}

# As a file in fpath this is the body of the function; with `source` it is a script.
if [[ $funcstack[1] == _outbox ]]; then
  _outbox "$@"
else
  compdef _outbox outbox
fi
)";
}

// --- fish -----------------------------------------------------------------------------------------------------------

std::string in_fish_quotes(std::string const& text) { return "'" + replaced(text, "'\\", "\\") + "'"; }

std::string fish_option(command_tree const& tree, option_text const& o) {
  auto const kind = kind_of(tree, o);
  auto const offered = in_fish_quotes(joined(kind.choices));
  std::string text;
  for (auto const& n : o.names) text += n.starts_with("--") ? " -l " + n.substr(2) : " -s " + n.substr(1);
  if (o.names.empty()) {
    text += kind.file ? " -F" : kind.choices.empty() ? "" : " -a " + offered;
  } else if (kind.file) {
    text += " -r -F";
  } else if (kind.list) {
    text += " -x -a " + in_fish_quotes("(__outbox_list " + joined(kind.choices) + ")");
  } else if (!o.value.empty()) {
    text += " -x" + (kind.choices.empty() ? "" : " -a " + offered);
  }
  return text.empty() ? text : text + " -d " + in_fish_quotes(o.text);
}

std::string fish(command_tree const& tree) {
  std::string text = R"(# fish completion for outbox, printed by `outbox completion fish`

function __outbox_has_no_verb
    test (count (commandline -opc)) -eq 1
end

function __outbox_verb_is
    set -l given (commandline -opc)
    test (count $given) -gt 1; and test "$given[2]" = $argv[1]
end

# Words divided by commas: the last one is completed.
function __outbox_list
    set -l front (commandline -ct | string replace -r -- '^--[^=]*=' '' | string match -r -- '.*,')
    printf '%s\n' "$front"$argv
end

complete -c outbox -f
)";
  for (auto const& o : options_of(tree.root())) {
    text += "complete -c outbox -n __outbox_has_no_verb" + fish_option(tree, o) + "\n";
  }
  for (auto const& v : tree.verbs()) {
    auto const name = v.app->get_name();
    text += "complete -c outbox -n __outbox_has_no_verb -a " + name + " -d " + in_fish_quotes(v.text.summary) + "\n";
    auto const line = "complete -c outbox -n '__outbox_verb_is " + name + "'";
    for (auto const& o : options_of(*v.app)) {
      if (auto const rest = fish_option(tree, o); !rest.empty()) text += line + rest + "\n";
      if (o.positional && !o.names.empty() && kind_of(tree, o).file) text += line + " -F\n";
    }
  }
  return text;
}

}  // namespace

void add_completion(command_tree& tree) {
  auto const shell = std::make_shared<std::string>();
  auto& verb = tree.add(
      "completion",
      {.summary = "print completions for bash, zsh or fish",
       .details = "The Debian package and `make install` bring them along.",
       .examples = {{"source <(outbox completion bash)", "for this shell, bash or zsh"},
                    {"outbox completion bash > /etc/bash_completion.d/outbox", "for everyone"},
                    {"outbox completion zsh > /usr/local/share/zsh/site-functions/_outbox", "for everyone, in zsh"},
                    {"outbox completion fish > ~/.config/fish/completions/outbox.fish", "for fish"}}},
      [shell, &tree] {
        auto const text = *shell == "bash" ? bash(tree) : *shell == "zsh" ? zsh(tree) : fish(tree);
        std::fputs(text.c_str(), stdout);
        return exit_good;
      });
  verb.add_option("shell", *shell, "the shell")
      ->type_name("bash|zsh|fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
}

}  // namespace outbox_tool
