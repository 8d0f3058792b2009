// Command dronedelivery is the drone-delivery example as a separate program: the five HTTP services that stand for
// other people's systems (serve), deliveries to submit (load), and the workflow and agent bindings that join the two
// (files). Package internal/dronedelivery says what the services guarantee.
//
// Data goes to stdout, everything else to stderr. Exit codes: 0 ok, 1 error, 2 usage.
//
// It refuses to listen anywhere but on loopback. It submits only in the ways that a user's own program has: it prints
// submissions for `sagalog task submit --from -`, posts them to the public HTTP API, or produces them to Kafka.
package main
