package scheduler

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// inlinedDepth is how much deeper a schema file lies in the definition that includes it: it is a member of $defs of the input.
const inlinedDepth = 3

// Applied returns the definition of a version with every default filled in. Anyone who may write to the topic can produce a
// definition that was never parsed, so the rules of Parse are enforced only here. The error says which rule it breaks.
func Applied(v Version) (*Definition, error) {
	all := &faults{}
	d := &document{data: v.Body, faults: all, maxBytes: MaxCompleteBytes, maxDepth: maxDocumentDepth + inlinedDepth}
	src, found := parse(d.read(), all, nil)
	for _, f := range found {
		if src == nil && !f.Warning {
			return nil, fmt.Errorf("%s: %s", f.Path, f.Message)
		}
	}
	if level := max(v.Level, events.FirstLevel); src.Level > level {
		return nil, fmt.Errorf("%s: needs level %d, but the record says level %d", src.NeedsLevel, src.Level, level)
	}
	if src.Workflow != v.Workflow {
		return nil, fmt.Errorf("workflow: is %q, but the key of the record says %q", src.Workflow, v.Workflow)
	}
	return Complete(v.Body)
}
