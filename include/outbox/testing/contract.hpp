// The contract of a store as a GoogleTest suite, for authors of stores. The stores of this library pass it too.
//
//   #include "my_backend.hpp"  // class my_backend : public outbox::contract::backend
//   #define OUTBOX_CONTRACT_BACKENDS my_backend
//   #include <outbox/testing/contract.hpp>
//
// Include it in one source file, and link outbox::contract and GTest::gmock_main. Several backends are separated by
// commas. To compile in parallel, include the headers in outbox/testing/contract/ in one source file each.
#pragma once

#include <outbox/testing/contract/claim.hpp>
#include <outbox/testing/contract/filter.hpp>
#include <outbox/testing/contract/foreign.hpp>
#include <outbox/testing/contract/insert.hpp>
#include <outbox/testing/contract/key.hpp>
#include <outbox/testing/contract/keyed_claim.hpp>
#include <outbox/testing/contract/lease.hpp>
#include <outbox/testing/contract/operator.hpp>
#include <outbox/testing/contract/order.hpp>
#include <outbox/testing/contract/settle.hpp>
#include <outbox/testing/contract/signals.hpp>
#include <outbox/testing/contract/table.hpp>
