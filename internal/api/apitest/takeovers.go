package apitest

import (
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// TakeOvers implements api.Cluster: node-b gave partition 0 up, which had taken it from a node that nobody knows any more.
func (e *Engine) TakeOvers(partition int32) []api.PastTakeOver {
	if partition != 0 {
		return nil
	}
	gap, void := events.Duration(1500*time.Millisecond), uint64(2)
	return []api.PastTakeOver{
		{Owner: "node-a", From: "node-b", Epoch: "3-e", At: 1795269600000, Cause: "stopped", Gap: &gap, Void: &void},
		{Owner: "node-b", From: "node-c", Epoch: "2-d", At: 1795269500000},
	}
}
