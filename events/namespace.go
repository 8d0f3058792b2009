package events

// DefaultNamespace is the prefix of all topic names unless another namespace is chosen. Engine, agents and producers agree on it,
// so that the first three commands of the README need no flag.
const DefaultNamespace = "sagalog"
