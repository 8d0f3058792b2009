package access

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// Role is what a caller may do. Each role includes those before it.
type Role string

// The roles.
const (
	// Anyone needs no token.
	Anyone Role = "anyone"
	// Viewer reads everything.
	Viewer Role = "viewer"
	// Submitter also submits tasks, and sends them signals.
	Submitter Role = "submitter"
	// Operator also steers tasks, and pauses agents, limits and schedules.
	Operator Role = "operator"
	// Admin also changes definitions, limits, schedules and settings.
	Admin Role = "admin"
)

// Roles are the roles that a token can have, from the least to the most.
var Roles = []Role{Viewer, Submitter, Operator, Admin}

// ParseRole returns the role of a name.
func ParseRole(name string) (Role, error) {
	if slices.Contains(Roles, Role(name)) {
		return Role(name), nil
	}
	known := make([]string, len(Roles))
	for i, r := range Roles {
		known[i] = string(r)
	}
	return "", fmt.Errorf("%q is not a role; %s", name, events.Suggest(name, known))
}

// Includes says whether a caller with this role may do what needs that one. An unknown role includes nothing.
func (r Role) Includes(needed Role) bool {
	if needed == Anyone {
		return true
	}
	has, needs := slices.Index(Roles, r), slices.Index(Roles, needed)
	return needs >= 0 && has >= needs
}

// Caller is who calls the API.
type Caller struct {
	// Name stands in facts as `by`.
	Name string
	Role Role
	// Expires is when the token ends; zero if it does not.
	Expires time.Time
}

type callerKey struct{}

// With returns a context of a request by that caller.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns who sent the request; false if access is off, or if the call needs no token.
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}
