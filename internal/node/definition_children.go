package node

import (
	"fmt"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
)

// unknownChildren warns of the steps whose child is a task of a workflow that does not exist. They do not stop an apply, since that workflow may be
// applied next.
func (d *definitions) unknownChildren(def *scheduler.Definition) (warnings []api.Fault) {
	for i := range def.Steps {
		s := &def.Steps[i]
		name := s.ChildWorkflow()
		if name == "" || name == def.Workflow {
			continue
		}
		if _, ok := d.ns.catalog.Catalog.Current(name); !ok {
			warnings = append(warnings, api.Fault{
				Pointer: "/steps/" + s.ID + "/child/workflow",
				Message: fmt.Sprintf("there is no workflow %q yet: apply it before a task starts this step, or the child is rejected and the step fails", name),
			})
		}
	}
	return warnings
}
