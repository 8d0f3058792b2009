// Package transport connects an agent to the broker: a Source of work requests, and a Sink for reports and heartbeats. Package
// agent implements both over Kafka, and agenttest in memory. A program that uses agent.Dial needs neither.
//
// # Stability
//
// Nothing here is stable: the interfaces change with what agents and engines say to each other.
package transport
