// Every verb of the tool: each adds itself to the tree, and lives in a file of its name.
#pragma once

#include "cli/command_tree.hpp"

namespace outbox_tool {

void add_status(command_tree& tree);
void add_list(command_tree& tree);
void add_show(command_tree& tree);
void add_tail(command_tree& tree);
void add_doctor(command_tree& tree);
void add_errors(command_tree& tree);
void add_nodes(command_tree& tree);
void add_replay(command_tree& tree);
void add_discard(command_tree& tree);
void add_cancel(command_tree& tree);
void add_purge(command_tree& tree);
void add_pause(command_tree& tree);
void add_resume(command_tree& tree);
void add_audit(command_tree& tree);
void add_migrate(command_tree& tree);
void add_unkey(command_tree& tree);
void add_grants(command_tree& tree);
void add_bench(command_tree& tree);
void add_relay(command_tree& tree);
void add_check_config(command_tree& tree);
void add_completion(command_tree& tree);
void add_manual(command_tree& tree);
void add_version(command_tree& tree);

}  // namespace outbox_tool
