// Package transport connects an agent to the broker: a Source of work requests, and a Sink for reports and heartbeats. Package
// agent implements both over Kafka, and agenttest in memory. A program that uses agent.Dial needs neither.
package transport
