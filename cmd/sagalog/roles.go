package main

import (
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
)

// The values of --roles.
const (
	roleOwner     = "owner"
	roleAgent     = "agent"
	roleAPI       = "api"
	roleProjector = "projector"
)

var allRoles = []string{roleOwner, roleAgent, roleAPI, roleProjector}

// roles are what a process does.
type roles struct {
	// node is the part that needs a data directory.
	node  node.Roles
	agent bool
}

func parseRoles(names []string) (roles, error) {
	var r roles
	for _, name := range names {
		switch name = strings.TrimSpace(name); name {
		case roleOwner:
			r.node.Owner = true
		case roleAgent:
			r.agent = true
		case roleAPI:
			r.node.API = true
		case roleProjector:
			r.node.Projector = true
		default:
			return r, usage("--roles: unknown role %q; %s", name, events.Suggest(name, allRoles))
		}
	}
	if r == (roles{}) {
		return r, usage("--roles names no role; known are %s", strings.Join(allRoles, ", "))
	}
	return r, nil
}

// agentOnly says that the process runs agents and nothing else: it needs the brokers, and no data directory.
func (r roles) agentOnly() bool { return r.agent && r.node == (node.Roles{}) }

// String lists the roles as --roles takes them.
func (r roles) String() string {
	has := map[string]bool{roleOwner: r.node.Owner, roleAgent: r.agent, roleAPI: r.node.API, roleProjector: r.node.Projector}
	names := slices.DeleteFunc(slices.Clone(allRoles), func(name string) bool { return !has[name] })
	return strings.Join(names, ",")
}
