// Package e2e proves the engine from outside: it builds sagalog, dronedelivery and orders once, and runs them as processes with real
// sockets, real files and kill -9. It imports only what any other program could have: the wire format (events) and a Kafka
// client.
//
// `go test ./internal/e2e` runs small sizes. With SAGALOG_E2E=full it runs the full sizes, one test after another:
//
//	SAGALOG_E2E=full go test ./internal/e2e -v -count=1 -timeout 60m
//
// To run a part, add one of these to `go test ./internal/e2e -v -count=1 -timeout 30m`:
//
//	-run TestFirstStart                                    one command, the first delivery, the banner
//	-run TestEveryDelivery                                 refusals and hangs, ledgers compared with the log
//	-run TestKillsLoseNothing                              kill -9 at a steady rate
//	-run 'TestTheState|TestAnotherLog|TestAStateThat'      the state is the fold of the log
//	-run TestGarbage                                       what must be refused, among what must not
//	-run 'TestOneID|TestAWorkflow'                         repeats, conflicts, definitions
//	-run TestForeign                                       programs in other languages that know events/FORMAT.md alone
//	-run 'TestCancel|TestRetry|TestUndo|TestRedrive'       what operators do
//	-run 'TestOrders|TestAStuckOrder|TestTheRecipe'        the shop with a database, killed at each step; docs/orders.md
//	-run '^TestUpgrade$'                                   an older build is upgraded under load; with SAGALOG_E2E=full or -e2e.deliveries only
//	-run 'TestAFrozenEngine|TestKilledServices'            with SAGALOG_E2E=full or -e2e.deliveries only
//	-run TestKeepingOnTheEmbeddedBroker                    the log is kept for seconds, likewise; -e2e.keeping 1h for an hour
//
// Without SAGALOG_E2E=full or -e2e.deliveries, faults other than kill -9 (fault_*_test.go) are skipped too: a full disk,
// fsync that fails, no file handles, flipped bytes, frozen processes, older copies, two processes on one directory, topics
// trimmed, recreated or enlarged:
//
//	-run 'TestAFullDisk|TestFsync|TestNoFile|TestLittle|TestAReadOnly|TestAFlipped|TestFrozen|TestOlder|TestTwoProc'
//	-run 'TestALogTrimmed|TestAnInputTrimmed|TestATopicRecreated|TestARaised'
//
// Many nodes on a real Apache Kafka need Java, and Maven the first time. They are not parallel: each test starts its own
// brokers, by deploy/kafka/kafka.sh. Without SAGALOG_TEST_KAFKA=1 they are skipped:
//
//	SAGALOG_TEST_KAFKA=1 go test ./internal/e2e -v -count=1 -timeout 60m -run TestCluster
//	SAGALOG_TEST_KAFKA=1 go test ./internal/e2e -v -count=1 -timeout 90m -run TestClusterTrips -e2e.trips 10000     tasks and their children
//
// TestClusterPausedOwner builds sagalog with the tag sagalog_testhooks, since only that build reads
// SAGALOG_TEST_HOLD_APPENDS. Each test ends with `dronedelivery audit --epochs`, which also shows that every epoch had one
// owner and that no work request, alert, forward or dead letter belongs to a void fact, and with the state hash of every
// node beside a fold of the log. If a test fails, events.jsonl next to its logs holds the log.
//
// This kills owners, agents and brokers hundreds of times, at random moments and at the named points of the crash table. The
// system keeps its data from one run to the next:
//
//	.ci/kills --kills 180 --seed 1 --dir D           the embedded broker, in a separate process
//	.ci/kills --kills 20 --seed 1 --dir E --kafka    Apache Kafka, three brokers: each take-over is awaited
//
// At the end come the audit, the list of acknowledged submissions, `sagalog verify` and the state hashes, and runs of these
// checks that must fail: with a false ledger, and with a submission that the log does not hold. kills.json in D holds the
// figures.
//
// Flags set the sizes. This is harder than the full size:
//
//	go test ./internal/e2e -v -count=1 -run TestKillsLoseNothing -e2e.deliveries 6000 -e2e.minutes 2 -e2e.kills 80
//
// To run TestEveryDeliveryEndsAndTheLedgersAgree by hand:
//
//	dronedelivery serve --data ./services --refuse drone=0.1 --hang package=0.005
//	dronedelivery files ./files
//	PACKAGE_URL=http://127.0.0.1:... ACCOUNT_URL=... sagalog dev --demo none --workflows ./files --agents ./files/agents
//	dronedelivery load --count 10000 --api http://127.0.0.1:8642
//	dronedelivery audit --brokers 127.0.0.1:9092 --services ./services/endpoints.json --count 10000
//	dronedelivery audit --brokers 127.0.0.1:9092 --services ./services/endpoints.json --count 10000 --lie 7   # exit 1
//
// A test that fails keeps its data and logs and says where they are; -e2e.keep keeps those of the others too. Random
// instants come from a seed that is printed, and -e2e.seed repeats it (but not the timing of the processes).
//
// It kills only processes that it started, by process ID, and it does not judge speed. Every wait has a generous bound. The
// times that the engine should keep (the first delivery within 10 s, Ctrl-C within 5 s, a take-over below 4 s, no delivery
// waiting longer than a few seconds) are always printed, but required only in a full run.
package e2e
