package apitest

import (
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// Nodes implements api.Nodes for the node of that name: it has seen a, b and c, whose clocks are ahead, and knows its own disk and no other's.
type Nodes string

// Heard implements api.Nodes: these nodes were heard.
type Heard []api.NodeDocument

// Nodes implements api.Nodes.
func (h Heard) Nodes() []api.NodeDocument { return h }

// Nodes implements api.Nodes.
func (n Nodes) Nodes() (list []api.NodeDocument) {
	for _, name := range []string{"a", "b", "c"} {
		d := api.NodeDocument{Node: name, Partitions: []int32{}}
		if name == string(n) {
			bytes := int64(len(n)) * int64(n[0])
			d.StateBytes, d.FreeBytes, d.BrokerAhead = &bytes, &bytes, new(events.Duration(time.Second))
		} else {
			d.ClockAhead = new(events.Duration(2 * time.Millisecond))
		}
		list = append(list, d)
	}
	return list
}
