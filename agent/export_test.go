package agent

// LimitIsFixed reports whether FixedLimit was given to an agent.
func LimitIsFixed(r *Registry, name string) bool { return newLimiter(r.agents[name]).fixed }
