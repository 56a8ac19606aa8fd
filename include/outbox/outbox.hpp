// Everything a small program needs except a store; also include the header of your database, such as
// <outbox/sqlite.hpp>.
#pragma once

#include <outbox/clock.hpp>
#include <outbox/codec.hpp>
#include <outbox/completion.hpp>
#include <outbox/dead_events.hpp>
#include <outbox/delivery.hpp>
#include <outbox/error.hpp>
#include <outbox/event.hpp>
#include <outbox/fan_out.hpp>
#include <outbox/hooks.hpp>
#include <outbox/listener.hpp>
#include <outbox/log.hpp>
#include <outbox/metrics.hpp>
#include <outbox/node.hpp>
#include <outbox/options.hpp>
#include <outbox/result.hpp>
#include <outbox/retry.hpp>
#include <outbox/store.hpp>
#include <outbox/system_log.hpp>
#include <outbox/trace.hpp>
#include <outbox/transaction.hpp>
#include <outbox/tx_context.hpp>
#include <outbox/version.hpp>
#include <outbox/well_known_headers.hpp>
#include <outbox/writer.hpp>
