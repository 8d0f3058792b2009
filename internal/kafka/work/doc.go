// Package work connects agents to Kafka: it is the transport.Broker of agent.Dial, and of the agents that a node runs.
//
// Over returns it for a connected cluster. Open creates the work topics that are missing, with as many partitions as the namespace has,
// and joins a consumer group for each agent.
//
// A member that its group fences joins again, unless another live process with its name is heard.
//
// It refuses to look into requests and reports.
package work
