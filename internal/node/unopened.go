package node

import (
	"log/slog"
	"time"

	"github.com/sagalog/sagalog/supervisor"
)

// unopenedEvery is how often a node says that something waits because it cannot be opened now.
const unopenedEvery = time.Minute

// unopened says in the log what waits because a sealed value cannot be opened now.
type unopened struct {
	owners *owners
	log    *slog.Logger
}

// look looks at all partitions of this node.
func (u *unopened) look() {
	for p := range u.owners.shells {
		x := u.owners.status(int32(p)).Unopened
		if x.Reason == "" {
			continue
		}
		inputs := 0
		for i := range supervisor.Inputs() {
			inputs += x.Inputs[i]
		}
		u.log.Warn("inputs or tasks wait because this node cannot open their content now; it keeps trying", "partition", p, "inputs", inputs, "tasks", x.Tasks, "reason", x.Reason)
	}
}
