package events_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
)

func documentedFacts(t *testing.T) map[events.Name]bool { return map[events.Name]bool{} }
