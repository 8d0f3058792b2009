package kafka

// Groups returns the names of a namespace's consumer groups.
type Groups struct{ Namespace string }

// Owners is the group of the nodes with the role owner.
func (g Groups) Owners() string { return g.Namespace + ".owners" }

// Webhook stores how far messages to the receiver were delivered. It has no members.
func (g Groups) Webhook() string { return g.Namespace + ".webhook" }

// Agents is the group of the instances of an agent.
func (g Groups) Agents(agent string) string { return g.Namespace + ".agents." + agent }
