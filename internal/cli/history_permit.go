package cli

import (
	"encoding/json"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// permitText says what a fact about a permit means for the task, or for the step whose attempt needs the permit; "" of other facts.
func permitText(f api.HistoryEvent) string {
	var data struct {
		Limit  string      `json:"limit"`
		Link   events.Link `json:"link"`
		Repeat bool        `json:"repeat"`
	}
	if json.Unmarshal(f.Data, &data) != nil {
		return ""
	}
	who, limit := "the task", strings.TrimPrefix(strings.TrimPrefix(data.Limit, events.ConcurrencyPrefix), events.NamedPrefix)
	switch {
	case data.Link.Operation == events.Undo:
		who = "the undo of step " + data.Link.Path
	case data.Link.Path != "":
		who = "step " + data.Link.Path
	}
	switch events.Name(f.Type) {
	case events.NamePermitAsked:
		if data.Repeat {
			return who + " still waits for a permit of " + limit
		}
		return who + " needs a permit of " + limit
	case events.NamePermitGranted:
		return who + " has a permit of " + limit
	case events.NamePermitBlocked:
		return "others wait for the task's permit of " + limit
	case events.NamePermitReleased:
		return who + " gave back its permit of " + limit
	}
	return ""
}
