// `outbox completion`: what a shell needs to complete command lines, made from the tree of verbs.
#include <cstdio>
#include <memory>

#include "exit_status.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

std::string joined(std::vector<std::string> const& words) {
  std::string text;
  for (auto const& w : words) text += (text.empty() ? "" : " ") + w;
  return text;
}

// In single quotes of a shell.
std::string in_quotes(std::string const& text) {
  std::string result = "'";
  for (char const c : text) result += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
  return result + "'";
}

std::vector<std::string> names_of(CLI::App const& app) {
  std::vector<std::string> all;
  for (auto const& o : options_of(app)) all.insert(all.end(), o.names.begin(), o.names.end());
  return all;
}

std::string bash(command_tree const& tree) {
  std::vector<std::string> verbs;
  std::string cases;
  for (auto const& v : tree.verbs()) {
    verbs.push_back(v.app->get_name());
    cases += "    " + v.app->get_name() + ") words=" + in_quotes(joined(names_of(*v.app))) + " ;;\n";
  }
  return "# bash completion for outbox\n"
         "_outbox() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
         "  case $before in\n"
         "    --config) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
         "    --state) COMPREPLY=($(compgen -W 'new retry pending done dead' -- \"$word\")); return ;;\n"
         "  esac\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W " +
         in_quotes(joined(verbs) + " " + joined(names_of(tree.root()))) +
         " -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -o default -F _outbox outbox\n";
}

// A description in zsh's _arguments must not have brackets or colons that mean something.
std::string zsh_text(std::string const& text) {
  std::string result;
  for (char const c : text)
    result += c == '[' || c == ']' || c == ':' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return result;
}

std::string zsh(command_tree const& tree) {
  std::string verbs, cases;
  for (auto const& v : tree.verbs()) {
    verbs += "    " + in_quotes(v.app->get_name() + ":" + zsh_text(v.text.summary)) + "\n";
    cases += "    " + v.app->get_name() + ")\n      _arguments";
    for (auto const& o : options_of(*v.app)) {
      for (auto const& n : o.names) {
        auto spec = n + "[" + zsh_text(o.text) + "]";
        if (!o.value.empty()) {
          spec += ":" + zsh_text(o.value) + ":" +
                  (o.value == "FILE" ? "_files"
                   : n == "--state"  ? "(new retry pending done dead)"
                                     : " ");
        }
        cases += " \\\n        " + in_quotes(spec);
      }
    }
    cases += "\n      ;;\n";
  }
  return "#compdef outbox\n"
         "_outbox() {\n"
         "  local -a verbs\n"
         "  verbs=(\n" +
         verbs +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe 'verb' verbs\n"
         "    return\n"
         "  fi\n"
         "  local verb=${words[2]}\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $verb in\n" +
         cases +
         "  esac\n"
         "}\n"
         "compdef _outbox outbox\n";
}

std::string fish(command_tree const& tree) {
  std::string text = "# fish completion for outbox\ncomplete -c outbox -f\n";
  for (auto const& v : tree.verbs()) {
    auto const name = v.app->get_name();
    text += "complete -c outbox -n __fish_use_subcommand -a " + name + " -d " + in_quotes(v.text.summary) + "\n";
    for (auto const& o : options_of(*v.app)) {
      if (o.positional) continue;
      text += "complete -c outbox -n '__fish_seen_subcommand_from " + name + "'";
      for (auto const& n : o.names) text += n.starts_with("--") ? " -l " + n.substr(2) : " -s " + n.substr(1);
      if (o.value == "FILE") {
        text += " -r -F";
      } else if (o.value == "STATE") {
        text += " -x -a 'new retry pending done dead'";
      } else if (!o.value.empty()) {
        text += " -x";
      }
      text += " -d " + in_quotes(o.text) + "\n";
    }
  }
  return text;
}

}  // namespace

void add_completion(command_tree& tree) {
  auto const shell = std::make_shared<std::string>();
  auto& verb = tree.add("completion",
                        {.summary = "print completions for bash, zsh or fish",
                         .examples = {{"outbox completion bash > /etc/bash_completion.d/outbox", "for everyone"},
                                      {"source <(outbox completion bash)", "for this shell"},
                                      {"outbox completion fish > ~/.config/fish/completions/outbox.fish", "for fish"}}},
                        [shell, &tree] {
                          auto const text = *shell == "bash" ? bash(tree) : *shell == "zsh" ? zsh(tree) : fish(tree);
                          std::fputs(text.c_str(), stdout);
                          return exit_good;
                        });
  verb.add_option("shell", *shell, "bash, zsh or fish")
      ->type_name("SHELL")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
}

}  // namespace outbox_tool
