// The tool `outbox`: one program, one verb per task.
#include <CLI/CLI.hpp>
#include <outbox/version.hpp>
#include <string>

#include "relay.hpp"

int main(int argc, char** argv) {
  CLI::App app{"outbox: delivers the events of transactional outboxes"};
  app.set_version_flag("--version", std::string{"outbox "} + std::string{outbox::version()});
  app.require_subcommand(1);
  app.footer("Exit status: 0 success, 1 failure, 2 a wrong command line or configuration.");

  std::string file;
  auto const takes_config = [&](CLI::App* verb) {
    verb->add_option("--config,config", file, "the configuration, a TOML file")->required()->envname("OUTBOX_CONFIG");
  };

  auto* const relay = app.add_subcommand("relay", "publish the events of tables until a signal ends it");
  bool dry_run = false;
  takes_config(relay);
  relay->add_flag("--dry-run", dry_run, "show where waiting events would go, and change nothing");

  auto* const check = app.add_subcommand("check-config", "say whether a configuration is right, and what it says");
  takes_config(check);

  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    int const status = app.exit(e);
    return status == 0 ? outbox_tool::exit_good : outbox_tool::exit_usage;
  }
  if (check->parsed()) return outbox_tool::check_config(file);
  return dry_run ? outbox_tool::preview_relay(file) : outbox_tool::run_relay(file);
}
