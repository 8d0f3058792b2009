package node

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
)

// unfitChildren warns of the steps whose child cannot be started as things are, and of those that start their own workflow again without end. They do not stop an
// apply, since the workflow of the child may be applied next.
func (d *definitions) unfitChildren(def *scheduler.Definition) (warnings []api.Fault) {
	for i := range def.Steps {
		s := &def.Steps[i]
		name, version := s.ChildVersion()
		if name == "" {
			continue
		}
		warn := func(member, format string, args ...any) {
			warnings = append(warnings, api.Fault{Pointer: "/steps/" + s.ID + "/child/" + member, Message: fmt.Sprintf(format, args...)})
		}
		current, known := d.ns.catalog.Catalog.Current(name)
		_, right := d.ns.catalog.Catalog.Version(name, version)
		switch {
		case name == def.Workflow && s.If == "":
			warn("workflow", "the workflow starts itself, and nothing ends that but the limit of %d ancestors: give the step an if", events.MaxDepth)
		case name == def.Workflow:
		case !known:
			warn("workflow", "there is no workflow %q yet: apply it before a task starts this step, or the child is rejected and the step fails", name)
		case version != 0 && !right:
			warn("version", "workflow %q has no version %d; its current one is %d", name, version, current.Version)
		}
	}
	return warnings
}
